from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checkmate import python_api
from checkmate.charts.frontier import svg_text
from checkmate.cli import common_options, output
from checkmate.errors import UsageError
from checkmate.formats.files import require_writable, write_bytes, write_json
from checkmate.frontiers.summary import TradeOff
from checkmate.frontiers.table import csv_text, facts, text
from checkmate.graphs.by_name import read_or_build
from checkmate.ir import Graph, SolveStatus
from checkmate.solvers.problem import SolverFeature
from checkmate.solvers.registry import BASELINES, find_solver
from checkmate.sweeps.engine import parse_engine
from checkmate.terminal import Interrupt
from checkmate.units import Budget, parse_budget

_COUNT, _MOST = 12, 999
_ENDINGS = (".svg", ".csv", ".json", ".json.gz")


def add_frontier(parser: argparse.ArgumentParser) -> None:
    common_options.describe(
        parser,
        _frontier,
        "Show the cheapest schedule for each budget, the lower bound for any order of execution, and the "
        "known checkpointing strategies. Ctrl-C keeps what was found. Exit codes: 0 some budget has a "
        "schedule, 3 all are proved infeasible, 4 none was found.",
        example="checkmate frontier resnet50.json --budgets 25%,50%,8GiB -o curve.svg -o curve.csv",
    )
    _add_question(parser)
    _add_running(parser)


def _add_question(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("graphs", type=Path, metavar="G.json", nargs="+", help=common_options.GRAPH_HELP)
    add(
        "--budgets",
        "--points",
        type=_budgets,
        default=_COUNT,
        metavar="N|A,B,C",
        help=f"how many budgets between the least memory and keep-everything (default {_COUNT}), or a list "
        "of budgets: 25%%,50%%,8GiB,min",
    )
    common_options.add_time_limit(
        parser,
        60.0,
        "seconds for all budgets of a graph together; they are first split evenly, then spent where the gap "
        "is widest",
    )
    add("--solver", default="auto", help="the solver, see: checkmate list solvers (default auto)")
    add(
        "--baseline",
        action="append",
        metavar="NAME",
        help="a solver to show as points beside the curve; repeatable; none for no points (default: "
        "the published strategies)",
    )


def _add_running(parser: argparse.ArgumentParser) -> None:
    common_options.add_resources(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=_output,
        action="append",
        default=[],
        metavar="FILE",
        help="a .svg, .csv or .json file to write; the .json has the schedules too; repeatable; for several "
        "graphs, put {graph} into its name",
    )
    for ending in (".svg", ".csv"):
        parser.add_argument(
            f"--{ending[1:]}",
            dest="output",
            type=_output_as(ending),
            action="append",
            metavar="FILE",
            help=f"the {ending} file to write, like -o",
        )
    _add_engine(parser)


def _add_engine(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group(
        "sweeps",
        "By default one process solves budget after budget, each from what its neighbours found: best "
        "for one graph. On an engine every budget is solved by itself, with an even share of the time limit: "
        "for many graphs or cores, and for curves to repeat or resume. The lowest budget of a count is then "
        "the least memory that greedy reaches.",
    ).add_argument
    add(
        "--engine",
        type=common_options.typed(parse_engine),
        metavar="WHERE",
        help="where the solves run: processes, processes:N or dask://host:port; by default in this process",
    )
    add(
        "--jobs",
        type=common_options.positive,
        metavar="N",
        help="run at most this many solves at once (default: as many as the engine has room for)",
    )
    add(
        "--journal",
        type=Path,
        metavar="FILE.jsonl",
        help="write each finished solve to this file, and skip those that it already has",
    )
    add(
        "--moves",
        type=common_options.positive,
        metavar="N",
        help="end local-search after N moves, not by the clock; every machine then gives the same answer",
    )


def _frontier(options: argparse.Namespace, interrupt: Interrupt) -> int:
    if options.moves is not None and SolverFeature.COUNTS_MOVES not in find_solver(options.solver).features:
        raise UsageError(
            f"solver {options.solver!r} does not count moves", hint="--moves is for --solver local-search"
        )
    outputs = [_outputs(options.output, path, several=len(options.graphs) > 1) for path in options.graphs]
    _require_different([path for paths in outputs for path in paths])
    for path in (path for paths in outputs for path in paths):
        require_writable(path)
    graphs = [read_or_build(path) for path in options.graphs]
    curves = _curves(options, graphs, interrupt)
    for found, paths in zip(curves, outputs, strict=False):
        for path in paths:
            write(path, found)
    wrote = ["".join(f"\nwrote {path}" for path in paths) for paths in outputs]
    told = [facts(found) for found in curves]
    whole = told[0] if len(graphs) == 1 else {"format": "checkmate-frontiers", "version": 1, "curves": told}
    output.show(options.json, whole, "\n\n".join(text(f) + w for f, w in zip(curves, wrote, strict=False)))
    if any(found.cancelled for found in curves):
        return output.interrupted()
    statuses = {row.status for found in curves for row in found.rows}
    return output.fit_exit_code(
        fits=any(status.has_schedule for status in statuses), refuted=statuses == {SolveStatus.INFEASIBLE}
    )


def _curves(options: argparse.Namespace, graphs: list[Graph], interrupt: Interrupt) -> list[TradeOff]:
    """After a cancel, curves that were not begun are left out."""
    named = BASELINES if options.baseline is None else options.baseline
    asked: dict[str, Any] = {
        "budgets": options.budgets,
        "solver": options.solver,
        "options": common_options.search_options(options),
        "baselines": [name for name in named if name != "none"],
        "quiet": options.quiet,
        "cancelled": interrupt,
    }
    if options.engine or options.jobs or options.journal:
        engine = None if options.engine is None else str(options.engine)
        return python_api.sweep(graphs, engine=engine, jobs=options.jobs, journal=options.journal, **asked)
    curves: list[TradeOff] = []
    for graph in graphs:
        curves.append(python_api.frontier(graph, **asked))
        if curves[-1].cancelled:
            break
    return curves


def _outputs(wanted: list[Path], graph: Path, *, several: bool) -> list[Path]:
    stem = graph.name.removesuffix(".gz").removesuffix(".json")
    for path in wanted:
        if several and "{graph}" not in path.name:
            raise UsageError(
                f"several curves cannot go into one {path.name}", hint=f"write -o '{{graph}}{_ending(path)}'"
            )
    return [path.with_name(path.name.replace("{graph}", stem)) for path in wanted]


def _require_different(paths: list[Path]) -> None:
    twice = next((path for place, path in enumerate(paths) if path in paths[:place]), None)
    if twice is not None:
        raise UsageError(f"two curves would go into {twice}", hint="give the graphs' files different names")


def write(path: Path, found: TradeOff) -> None:
    ending = _ending(path)
    if ending == ".svg":
        write_bytes(path, svg_text(found).encode("utf-8"))
    elif ending == ".csv":
        write_bytes(path, csv_text(found).encode("utf-8"))
    else:
        write_json(path, facts(found, steps=True))


def _ending(path: Path) -> str:
    for ending in _ENDINGS:
        if path.name.lower().endswith(ending):
            return ending
    raise UsageError(f"{path.name!r} ends in no known format", hint="end it in .svg, .csv or .json")


def _output(text: str) -> Path:
    try:
        _ending(Path(text))
    except UsageError as error:
        raise argparse.ArgumentTypeError(f"{error}; {error.hint}") from None
    return Path(text)


def _output_as(ending: str) -> Callable[[str], Path]:
    def read(text: str) -> Path:
        if not text.lower().endswith(ending):
            raise argparse.ArgumentTypeError(f"{text!r} does not end in {ending}")
        return Path(text)

    return read


@common_options.typed
def _budgets(text: str) -> int | tuple[Budget, ...]:
    """A number of a thousand and more is bytes."""
    if text.strip().isdecimal() and int(text) <= _MOST:
        if int(text) < 2:
            raise ValueError("a curve needs at least two budgets; write 12, or a list like 25%,50%,8GiB")
        return int(text)
    return tuple(parse_budget(part) for part in text.split(","))
