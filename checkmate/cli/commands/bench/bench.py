"""Parse and run ``checkmate bench``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkmate.cli.commands.bench import bench_paper, bench_peers
from checkmate.cli.shared import options as cli_options
from checkmate.cli.shared import output, sweep_options
from checkmate.errors import ExitCode
from checkmate.progress import Progress, Report
from checkmate.terminal import Interrupt, progress_line
from checkmate.units import parse_budget

if TYPE_CHECKING:
    from checkmate.bench.solvers.trials import Trial, Wanted
    from checkmate.ir.graph import Graph
    from checkmate.solvers.problem import SolveOptions

_SECONDS, _SMOKE_SECONDS = 10.0, 0.3
_DEFAULT_BUDGETS, _SMOKE_BUDGETS = ("90%", "80%"), ("80%",)


def add_bench(commands: Any, common: Any) -> None:
    """Add ``bench`` and its subjects to the parser of all commands."""
    parser = commands.add_parser(
        "bench",
        help="measure the solvers, the predictions and other ways to save memory",
        description="Measure how good and how fast the solvers are, how well peaks and times are predicted, "
        "and how other ways to save memory compare.",
    )
    parser.set_defaults(command=_help(parser), json=False, quiet=False, debug=False)
    subjects = parser.add_subparsers(metavar="WHAT", parser_class=type(parser))
    _add_solvers(subjects, common)
    _add_fidelity(subjects, common)
    bench_peers.add_peers(subjects, common)
    bench_paper.add_paper(subjects, common)
    bench_paper.add_published(subjects, common)


def _help(parser: argparse.ArgumentParser) -> Any:
    def show(options: argparse.Namespace, interrupt: Interrupt) -> int:
        output.emit(parser.format_help().rstrip())
        return 0

    return show


def _add_solvers(subjects: Any, common: Any) -> None:
    parser: argparse.ArgumentParser = subjects.add_parser(
        "solvers",
        parents=[common],
        help="compare solvers on graphs and budgets: cost, gap and seconds, with published figures",
        description="Solve every graph at every budget with every solver. The table shows cost and gap. It "
        "also shows the seconds until the first schedule, until a cost within 1 % of the final one, and "
        "until the final cost. Published figures stand beside them. The exit code is 0 when everything was "
        "measured, whatever the results, or 1 if a solver crashed or gave a wrong schedule.",
        epilog="Example: checkmate bench solvers resnet50.json --budget 60% --solver auto --solver greedy",
    )
    _add_cases(parser)
    _add_solving(parser)
    parser.set_defaults(command=_solvers)


def _add_cases(parser: argparse.ArgumentParser) -> None:
    """Add the graphs, the budgets and the solvers to compare."""
    add = parser.add_argument
    add(
        "graphs",
        type=Path,
        metavar="GRAPH.json",
        nargs="*",
        help="the graphs to solve (default: generated graphs and the bundled U-Net)",
    )
    add(
        "--budget",
        type=_budget,
        action="append",
        help="a budget as for solve; repeatable (default 90%% and 80%%)",
    )
    add(
        "--fraction",
        type=_fraction,
        action="append",
        metavar="F",
        help="a budget between the least reachable peak (F = 0) and the keep-everything peak (F = 1); "
        "repeatable",
    )
    add(
        "--solver",
        action="append",
        metavar="NAME",
        help="a solver, see: checkmate list solvers; repeatable (default auto)",
    )


def _add_solving(parser: argparse.ArgumentParser) -> None:
    """Add the limits, the engine and the file to write."""
    add = parser.add_argument
    add("--time-limit", type=cli_options.seconds, help=f"seconds for each solve (default {_SECONDS:g})")
    cli_options.add_resources(parser)
    sweep_options.add_engine(
        parser,
        why="By default this process runs one solve after the other, so the seconds are those of one "
        "solver alone. On an engine, solves that run at once share cores, and the table says so.",
    )
    add(
        "--smoke",
        action="store_true",
        help=f"use tiny graphs and {_SMOKE_SECONDS:g} s each, to see whether everything works",
    )
    add("-o", "--output", type=Path, metavar="FILE.json", help="save the --json output in this file")


def _solvers(options: argparse.Namespace, interrupt: Interrupt) -> int:
    from checkmate.bench.common.machine import this_machine
    from checkmate.bench.solvers import table
    from checkmate.formats.files import require_writable, write_json
    from checkmate.solvers.problem import SolveOptions

    names = cli_options.loaded_solvers(options)
    sweep_options.require_counting(options, names)
    if options.output:
        require_writable(options.output)
    limit = options.time_limit or (_SMOKE_SECONDS if options.smoke else _SECONDS)
    solve_options = SolveOptions(
        time_limit_s=limit, workers=options.workers, seed=options.seed, moves=options.moves
    )
    machine = this_machine()
    with progress_line(quiet=options.quiet) as report:
        trials = _measured(options, names, solve_options, report, interrupt)
    found = table.facts(trials, solve_options, machine)
    if options.output:
        write_json(options.output, found)
    text = table.text(trials, solve_options, machine)
    output.show(options.json, found, text + (f"\nwrote {options.output}" if options.output else ""))
    return ExitCode.UNEXPECTED if table.any_failed(trials) else ExitCode.DONE


def _measured(
    options: argparse.Namespace,
    names: list[str],
    solve_options: SolveOptions,
    report: Report,
    interrupt: Interrupt,
) -> list[Trial]:
    """Measure one trial after the other, or on an engine if asked for."""
    from checkmate.bench.solvers import on_engine
    from checkmate.bench.solvers import trials as solvers

    graphs, budgets = _graphs(options), _wanted(options)
    if not sweep_options.wants_engine(options):
        solvers.warm_up(names, report=report, cancelled=interrupt)
        cases = solvers.make_cases(graphs, budgets, report=report, cancelled=interrupt)
        return solvers.run(cases, names, solve_options, report=report, cancelled=interrupt)
    with sweep_options.opened(options, interrupt) as on:
        cases = on_engine.cases_on(
            graphs, budgets, on.pool, journal=on.journal, report=report, cancelled=interrupt
        )
        return on_engine.run_on(
            cases, names, solve_options, on.pool, journal=on.journal, report=report, cancelled=interrupt
        )


def _add_fidelity(subjects: Any, common: Any) -> None:
    parser: argparse.ArgumentParser = subjects.add_parser(
        "fidelity",
        parents=[common],
        help="compare predicted and measured peak and time of models at budgets, and check gradients",
        description="Profile every model, solve it at every budget, turn the schedule into a TensorFlow "
        "step, and measure that in fresh processes. The table shows predicted values next to measured ones. "
        "A row that fails says why. With -o, what an earlier run saved in that file is not measured again. "
        "The exit code is 0 when everything was measured, whatever the results, or 5 if gradients differ.",
        epilog="Example: checkmate bench fidelity --models resnet50,gpt --budgets 75,50 -o fidelity.json",
    )
    add = parser.add_argument
    add(
        "--models",
        type=cli_options.names,
        default=[],
        metavar="A,B",
        help="names of the zoo (default: the whole zoo), or any model with -b",
    )
    add(
        "--budgets",
        type=_shares,
        metavar="A,B",
        help="budgets in percent of the plain step's measured peak (default 100,75,50,35)",
    )
    add("-b", "--batch-size", type=cli_options.positive, help="use this batch size instead of the zoo's own")
    add("--time-limit", type=cli_options.seconds, help="seconds for each solve (default 8)")
    add("--allow-code", action="store_true", help="run the code of models given as file.py:function")
    add(
        "--peers",
        action="store_true",
        help="afterwards run bench peers on the same models; with -o FILE.json, its results go into "
        "FILE-peers.json",
    )
    add("--smoke", action="store_true", help="use two small models at 60 %%, to see whether everything works")
    add(
        "-o",
        "--output",
        type=Path,
        metavar="FILE.json",
        help="save the --json output in this file, after each model",
    )
    parser.set_defaults(command=_fidelity)


def _fidelity(options: argparse.Namespace, interrupt: Interrupt) -> int:
    from checkmate.bench.common.machine import this_machine
    from checkmate.bench.fidelity import rows as fidelity
    from checkmate.bench.fidelity import table as fidelity_table
    from checkmate.bench.peers import rows as peers
    from checkmate.formats.files import require_writable
    from checkmate.solvers.problem import SolveOptions

    names = options.models or (list(fidelity.SMOKE_MODELS) if options.smoke else [])
    shares = options.budgets or ([0.6] if options.smoke else [1.0, 0.75, 0.5, 0.35])
    wanted = fidelity.subjects(names, batch_size=options.batch_size, allow_code=options.allow_code)
    solve_options = SolveOptions(time_limit_s=options.time_limit or (2.0 if options.smoke else 8.0))
    machine = this_machine()
    done: list[dict[str, Any]] = []
    save: Any = lambda rows: None  # noqa: E731
    beside: Path | None = None
    if options.output:
        require_writable(options.output)
        done = fidelity.read_rows(options.output)
        if options.peers:
            beside = options.output.with_name(f"{options.output.stem}-peers.json")
            peers.read_rows(beside)  # report an unusable file now, not after an hour
        save = fidelity.save_to(options.output, machine, solve_options)
    with progress_line(quiet=options.quiet) as report:

        def told(row: dict[str, Any]) -> None:
            report(Progress("fidelity", message=fidelity_table.line(row)))

        rows = fidelity.run(
            wanted, shares, solve_options, done=done, save=save, told=told, report=report, cancelled=interrupt
        )
    found = fidelity.facts(rows, machine, solve_options)
    text = fidelity_table.text(rows, machine) + (f"\nwrote {options.output}" if options.output else "")
    differ = any(row.get("gradients", {}).get("equal") is False for row in rows)
    code = ExitCode.NOT_AS_PROMISED if differ else ExitCode.DONE
    if options.peers:
        limit = solve_options.time_limit_s
        more, table, worse = bench_peers.measured(
            wanted, limit, beside, quiet=options.quiet, interrupt=interrupt
        )
        found, text, code = {**found, "peers": more}, f"{text}\n\n{table}", max(code, worse)
    output.show(options.json, found, text)
    return code


def _shares(text: str) -> list[float]:
    try:
        found = [float(part.strip().rstrip("%")) / 100 for part in text.split(",")]
    except ValueError:
        found = [-1.0]
    if not all(0 < share <= 2 for share in found):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of percentages such as 75,50")
    return found


def _graphs(options: argparse.Namespace) -> list[Graph]:
    from checkmate.bench.solvers.trials import generated_graphs, smoke_graphs
    from checkmate.graphs.by_name import read_or_build

    if options.graphs:
        return [read_or_build(path) for path in options.graphs]
    return smoke_graphs() if options.smoke else generated_graphs()


def _wanted(options: argparse.Namespace) -> list[Wanted]:
    """Return the budgets asked for. Those of --budget come first, then those of --fraction."""
    from checkmate.bench.solvers.trials import Wanted

    usual = _SMOKE_BUDGETS if options.smoke else _DEFAULT_BUDGETS
    budgets = options.budget or (() if options.fraction else usual)
    return [Wanted(text, parse_budget(text)) for text in budgets] + [
        Wanted(f"f={fraction:g}", fraction) for fraction in options.fraction or []
    ]


def _budget(text: str) -> str:
    """Return ``text`` if it is a budget; the table shows it so."""
    try:
        parse_budget(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text.strip()


def _fraction(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not between 0 (least reachable peak) and 1 (keep everything)"
        )
    return value
