"""Parse and run ``bench paper`` and ``bench published``.

Both repeat what papers report, and show each result beside the published one.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkmate.cli.shared import options as cli_options
from checkmate.cli.shared import output, sweep_options
from checkmate.errors import ExitCode
from checkmate.terminal import Interrupt, progress_line
from checkmate.units import parse_budget

if TYPE_CHECKING:
    from checkmate.bench.common.rows import Row
    from checkmate.bench.paper.questions import PaperPlan

_SECONDS, _SMOKE_SECONDS, _PUBLISHED_SECONDS = 60.0, 2.0, 30.0
_SMOKE_MODELS, _SMOKE_FRACTIONS = ("vgg16", "unet"), (0.5,)


def add_paper(subjects: Any, common: Any) -> None:
    """Add ``paper`` to what ``bench`` can measure."""
    parser: argparse.ArgumentParser = subjects.add_parser(
        "paper",
        parents=[common],
        help="repeat the Checkmate paper's evaluation, next to its published figures",
        description="Repeat the Checkmate paper's evaluation on its networks, which are built in. It "
        "measures the extra cost of every strategy at many budgets, approximation ratios, the largest "
        "batches on 16 GB with one extra forward pass, and solve times. Each number stands next to the "
        "published one. Ctrl-C keeps what was measured; with -o a later run goes on from there. The exit "
        "code is 0 when everything was measured, or 130 if interrupted.",
        epilog="Example: checkmate bench paper --models vgg16,unet --parts ratios,batches -o paper.json",
    )
    _add_plan(parser)
    _add_running(parser)
    parser.set_defaults(command=_paper)


def _add_plan(parser: argparse.ArgumentParser) -> None:
    """Add the networks, parts and budgets to measure."""
    add = parser.add_argument
    add(
        "--models",
        type=cli_options.names,
        default=[],
        metavar="A,B",
        help="names of the paper's networks (default: all)",
    )
    add(
        "--parts",
        type=cli_options.names,
        default=[],
        metavar="A,B",
        help="parts to measure: curves, ratios, batches (default: all)",
    )
    add(
        "--budgets",
        type=_budgets,
        metavar="A,B",
        help="budgets of the curves, like 40%%,60%%,8GiB,min (default: those of --fractions)",
    )
    add("--fractions", type=_fractions, metavar="F,G", help="budgets between the least known "
                                                            "peak (0) and keep-everything (1) "
                                                            "(default 0.05,0.1,0.25,0.5,0.75)")  # fmt: skip


def _add_running(parser: argparse.ArgumentParser) -> None:
    """Add the limits, the engine and the file to write."""
    add = parser.add_argument
    add(
        "--time-limit",
        type=cli_options.seconds,
        help=f"seconds for each curve, each rounding and each largest batch (default {_SECONDS:g})",
    )
    cli_options.add_resources(parser)
    sweep_options.add_engine(
        parser,
        moves=False,
        why="By default this process runs one task after the other. On an engine, the largest batches "
        "and the curves run first, then the rounding of each budget. Tasks that run at once share cores, and "
        "the tables say so.",
    )
    add(
        "--smoke",
        action="store_true",
        help="use two networks, one budget and a few seconds, to see whether everything works",
    )
    add(
        "-o",
        "--output",
        type=Path,
        metavar="FILE.json",
        help="save the --json output in this file, after each answer",
    )


def _paper(options: argparse.Namespace, interrupt: Interrupt) -> int:
    from checkmate.bench.common.machine import this_machine
    from checkmate.bench.paper import on_engine, questions
    from checkmate.bench.paper import table as paper_table
    from checkmate.bench.solvers.trials import warm_up
    from checkmate.formats.files import require_writable, write_json

    plan, machine = _plan(options), this_machine()
    done: list[Row] = []

    def save(rows: list[Row]) -> None:
        if options.output:
            write_json(options.output, paper_table.facts(rows, plan, machine))

    if options.output:
        require_writable(options.output)
        done = questions.read_rows(options.output)
    with progress_line(quiet=options.quiet) as report:
        if sweep_options.wants_engine(options):
            with sweep_options.opened(options, interrupt) as on:
                found = on_engine.run_on(
                    plan,
                    on.pool,
                    journal=on.journal,
                    done=done,
                    save=save,
                    report=report,
                    cancelled=interrupt,
                )
        else:
            warm_up(["auto"], report=report, cancelled=interrupt)
            found = questions.run(plan, done=done, save=save, report=report, cancelled=interrupt)
    text = paper_table.text(found.rows, plan, machine)
    wrote = f"\nwrote {options.output}" if options.output and found.rows else ""
    output.show(
        options.json,
        {**paper_table.facts(found.rows, plan, machine), "cancelled": found.cancelled},
        text + wrote,
    )
    if found.cancelled:
        output.complain("interrupted; what was measured so far is kept", "")
    return ExitCode.INTERRUPTED if found.cancelled else 0


def _plan(options: argparse.Namespace) -> PaperPlan:
    from checkmate.bench.paper.questions import FRACTIONS, MODELS, PaperPlan, parts_of
    from checkmate.graphs.paper import find_network
    from checkmate.solvers.problem import SolveOptions

    names = options.models or (_SMOKE_MODELS if options.smoke else MODELS)
    fractions = options.fractions
    if fractions is None:
        fractions = () if options.budgets else _SMOKE_FRACTIONS if options.smoke else FRACTIONS
    limit = options.time_limit or (_SMOKE_SECONDS if options.smoke else _SECONDS)
    return PaperPlan(
        networks=tuple(dict.fromkeys(find_network(name) for name in names)),
        parts=parts_of(options.parts),
        budgets=tuple(options.budgets or ()),
        fractions=tuple(fractions),
        options=SolveOptions(time_limit_s=limit, workers=options.workers, seed=options.seed),
    )


def add_published(subjects: Any, common: Any) -> None:
    """Add ``published`` to what ``bench`` can measure."""
    parser: argparse.ArgumentParser = subjects.add_parser(
        "published",
        parents=[common],
        help="solve graphs published with MOCCASIN, next to the figures of MOCCASIN and FastSA",
        description="Solve graph files at the budgets for which results are published. Where none are, the "
        "budgets are 90 % and 80 % of the peak in the given order. Print extra cost and seconds next to "
        "those of Checkmate's program, MOCCASIN and FastSA.",
        epilog="Example: checkmate bench published moccasin/*.json -o published.json",
    )
    add = parser.add_argument
    add(
        "graphs",
        type=Path,
        metavar="GRAPH.json",
        nargs="+",
        help="checkmate graph files, or networkx node-link JSON",
    )
    add(
        "--budget",
        type=_budget,
        action="append",
        help="a budget to use instead of the published ones; repeatable",
    )
    add(
        "--solver",
        action="append",
        metavar="NAME",
        help="a solver, see: checkmate list solvers; repeatable (default auto)",
    )
    add(
        "--time-limit",
        type=cli_options.seconds,
        help=f"seconds for each solve (default {_PUBLISHED_SECONDS:g})",
    )
    cli_options.add_resources(parser)
    add("-o", "--output", type=Path, metavar="FILE.json", help="save the --json output in this file")
    parser.set_defaults(command=_published)


def _published(options: argparse.Namespace, interrupt: Interrupt) -> int:
    from checkmate.bench.common.machine import this_machine
    from checkmate.bench.solvers import published_table, table
    from checkmate.bench.solvers import trials as solvers
    from checkmate.bench.solvers.published import shares_of
    from checkmate.formats.files import require_writable, write_json
    from checkmate.graphs.by_name import read_or_build
    from checkmate.solvers.problem import SolveOptions

    names = cli_options.loaded_solvers(options)
    if options.output:
        require_writable(options.output)
    graphs = [read_or_build(path) for path in options.graphs]
    limit = options.time_limit or _PUBLISHED_SECONDS
    solve_options = SolveOptions(time_limit_s=limit, workers=options.workers, seed=options.seed)
    machine, cases = this_machine(), list[solvers.Case]()
    with progress_line(quiet=options.quiet) as report:
        solvers.warm_up(names, report=report, cancelled=interrupt)
        for graph in graphs:
            wanted = options.budget or [f"{100 * share:g}%" for share in shares_of(graph) or (0.9, 0.8)]
            budgets = [solvers.Wanted(text, parse_budget(text)) for text in wanted]
            cases += solvers.make_cases([graph], budgets, report=report, cancelled=interrupt)
        trials = solvers.run(cases, names, solve_options, report=report, cancelled=interrupt)
    found = table.facts(trials, solve_options, machine)
    if options.output:
        write_json(options.output, found)
    text = published_table.text(trials) + "\n\n" + table.text(trials, solve_options, machine)
    output.show(options.json, found, text + (f"\nwrote {options.output}" if options.output else ""))
    return ExitCode.UNEXPECTED if table.any_failed(trials) else ExitCode.DONE


@cli_options.typed
def _budget(text: str) -> str:
    """Return ``text`` if it is a budget."""
    parse_budget(text)
    return text.strip()


@cli_options.typed
def _budgets(text: str) -> tuple[str, ...]:
    for part in text.split(","):
        parse_budget(part)
    return tuple(part.strip() for part in text.split(","))


@cli_options.typed
def _fractions(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = (-1.0,)
    if not all(0 <= fraction <= 1 for fraction in found):
        raise ValueError(
            f"{text!r} is not a list of numbers from 0 (least known peak) to 1 (keep everything)"
        )
    return found
