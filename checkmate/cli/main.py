"""Parse the command line and run its command.

There is one command per stage. ``checkmate.cli.shared.output`` prints; the pipeline does the work.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from checkmate import __version__
from checkmate.cli.commands import (
    bench,
    cards,
    desktop,
    doctor,
    explain,
    frontier,
    info_pair,
    max_batch,
    solve,
)
from checkmate.cli.commands import report as cli_report
from checkmate.cli.shared import options as cli_options
from checkmate.cli.shared import output
from checkmate.errors import CancelledError, CheckmateError, UsageError
from checkmate.machine.supported import why_unsupported
from checkmate.request import ModelRequest
from checkmate.terminal import Interrupt, progress_line, without_native_chatter

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    The codes are those of ``reliability.md``: 0, 1, 2, 3, 4, 5 or 130.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        options = build_parser().parse_args(given)
    except UsageError as error:
        options = argparse.Namespace(json="--json" in given, debug=False)
        return _failed(options, str(error), error.hint, error.exit_code, error.details)
    logging.basicConfig(level=logging.DEBUG if options.debug else logging.ERROR, stream=sys.stderr)
    # Silence TensorFlow's C++ start-up messages, in this process only, unless the user has set the level.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "0" if options.debug else "3")
    if not why_unsupported():  # otherwise the command that needs TensorFlow reports it
        from checkmate.tf.environment import prepare_own_process

        prepare_own_process()
    interrupt = Interrupt()
    try:
        with interrupt.listening():
            command: Callable[[argparse.Namespace, Interrupt], int] = options.command
            with (
                nullcontext() if options.debug or not _uses_tensorflow(options) else without_native_chatter()
            ):
                return command(options, interrupt)
    except (CancelledError, KeyboardInterrupt) as error:
        kept = getattr(error, "details", {}).get("kept", "nothing was written")
        return _failed(options, f"interrupted; {kept}", getattr(error, "hint", ""), INTERRUPTED, {})
    except CheckmateError as error:
        return _failed(options, str(error), error.hint, error.exit_code, error.details)
    except ModuleNotFoundError as error:
        if (error.name or "checkmate").partition(".")[0] in ("checkmate", "app"):
            return _unexpected(options, error)
        sentence = f"this command needs {error.name}, which is not installed"
        return _failed(options, sentence, "pip install checkmate-explorer installs everything needed", 2, {})
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # the outermost level: one sentence; the traceback with --debug
        return _unexpected(options, error)


def _uses_tensorflow(options: argparse.Namespace) -> bool:
    traced = options.command in (_profile, _export, _verify, _run) or max_batch.traces(options)
    return traced or getattr(options, "what", "") == "devices"


def _unexpected(options: argparse.Namespace, error: Exception) -> int:
    sentence = (
        f"unexpected {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}".strip()
    )
    return _failed(options, sentence, "run again with --debug for the traceback, and please report it", 1, {})


def _failed(options: argparse.Namespace, message: str, hint: str, code: int, details: dict[str, Any]) -> int:
    noted = False
    if options.debug:
        traceback.print_exc()
        noted = hint in getattr(sys.exc_info()[1], "__notes__", ())  # the traceback ends with it
    if options.json:
        error = {"message": message, "hint": hint, "details": details}
        output.emit(json.dumps({"error": error, "exit_code": code}, default=str))
    output.complain(message, "" if noted else hint)
    return code


class _Parser(argparse.ArgumentParser):
    """Report an error in one clear sentence, without the usage block."""

    def error(self, message: str) -> Any:
        """Raise the message as an error.

        Raises:
            UsageError: always.
        """
        raise UsageError(message, hint=f"see: {self.prog} --help")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = _Parser(
        prog="checkmate",
        description="Explore, solve and export rematerialized training steps of Keras models.",
        epilog="Start with: checkmate explore unet   or: checkmate run unet --budget 60% -o out",
    )
    parser.add_argument("--version", action="version", version=f"checkmate {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
    common = _Parser(add_help=False)
    common.add_argument("--json", action="store_true", help="print one JSON object on standard output")
    common.add_argument("--quiet", action="store_true", help="no progress on standard error")
    common.add_argument("--debug", action="store_true", help="show tracebacks and logs")
    _add_explore(commands, common)
    _add_profile(commands, common)
    _add_info(commands, common)
    _add_solve(commands, common)
    max_batch.add_max_batch(commands, common)
    frontier.add_frontier(commands, common)
    cards.add_cards(commands, common)
    _add_check(commands, common)
    _add_export(commands, common)
    _add_verify(commands, common)
    _add_run(commands, common)
    bench.add_bench(commands, common)
    cli_report.add_report(commands, common)
    explain.add_explain(commands, common)
    desktop.add_desktop(commands, common)
    doctor.add_doctor(commands, common)
    _add_list(commands, common)
    return parser


def _command(
    commands: Any, name: str, common: Any, help: str, run: Any, example: str = ""
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, parents=[common], help=help, description=help, epilog=f"Example: {example}" if example else None
    )
    parser.set_defaults(command=run)
    return parser


def _add_explore(commands: Any, common: Any) -> None:
    parser = _command(commands, "explore", common, "open the window", _explore, "checkmate explore unet")
    parser.add_argument(
        "file", metavar="FILE", nargs="?", help="a model, a sample, a graph or a saved exploration"
    )
    parser.add_argument(
        "--screenshot", type=Path, metavar="OUT.png", help="save a picture of the solved window and exit"
    )
    parser.add_argument(
        "--animation",
        type=Path,
        metavar="OUT.gif",
        help="save the solved step's playback (.gif, .png, .webp) and exit",
    )
    parser.add_argument(
        "--size",
        type=cli_options.window_size,
        help="size in pixels (default: 1600x1000 for the window, 960x600 for the animation)",
    )
    parser.add_argument(
        "--theme",
        choices=("light", "dark"),
        help="colours of the window (default: as chosen in it, else the system's)",
    )
    parser.add_argument("--budget", type=cli_options.budget, help="budget to start with, e.g. 6.5GiB or 60%%")
    parser.add_argument("--at", type=int, metavar="STEP", help="go to this step of the schedule")
    parser.add_argument(
        "-b", "--batch-size", type=cli_options.positive, help="examples per step, for a model (default 32)"
    )
    parser.add_argument("--allow-code", action="store_true", help=cli_options.ALLOW_CODE_HELP)


def _add_profile(commands: Any, common: Any) -> None:
    parser = _command(
        commands, "profile", common, "trace a model's training step and find the cost of every op", _profile,
        "checkmate profile keras.applications.ResNet50 -b 8 -o resnet50.json",
    )  # fmt: skip
    cli_options.add_model(parser)
    parser.add_argument(
        "--costs",
        choices=("measured", "analytic"),
        default="measured",
        help="measured: time every op (default); analytic: count operations",
    )
    _add_refresh(parser)
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="G.json", help="the graph file to write"
    )


def _add_info(commands: Any, common: Any) -> None:
    parser = _command(commands, "info", common, "show what a graph holds and what fills its peak", _info)
    parser.add_argument("graph", type=Path, metavar="G.json", help=cli_options.GRAPH_HELP)
    parser.add_argument(
        "other", type=Path, metavar="B.json", nargs="?", help="another graph, to show both side by side"
    )


def _add_solve(commands: Any, common: Any) -> None:
    parser = _command(
        commands, "solve", common, "find a schedule for a budget", _solve,
        "checkmate solve resnet50.json --budget 60% -o schedule.json",
    )  # fmt: skip
    parser.add_argument("graph", type=Path, metavar="G.json", help=cli_options.GRAPH_HELP)
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument(
        "--budget", type=cli_options.budget, help="the budget: 6.5GiB, 16GB, 60%% of keep-everything, or min"
    )
    solve.add_overhead(asked)
    solve.add_constraints(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="S.json", help="the schedule file to write")
    parser.add_argument(
        "--matrices", type=Path, metavar="FILE.npz", help="write the paper's matrices R and S to this file"
    )
    cli_options.add_solver(parser, limit_s=60.0)


def _add_check(commands: Any, common: Any) -> None:
    parser = _command(commands, "check", common, "check a schedule by an independent replay", _check)
    parser.add_argument("graph", type=Path, metavar="G.json", help=cli_options.GRAPH_HELP)
    parser.add_argument("schedule", type=Path, metavar="S.json", help="a schedule file for this graph")
    parser.add_argument(
        "--budget", type=cli_options.budget, help="the budget to check (default: the schedule's own)"
    )


def _model_of_graph(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="the model that the graph was profiled from")
    parser.add_argument("schedule", type=Path, metavar="S.json", help="a schedule file for this graph")
    parser.add_argument(
        "-g", "--graph", type=Path, required=True, metavar="G.json", help="the profiled graph"
    )
    parser.add_argument(
        "--budget",
        type=cli_options.budget,
        help="the most memory that the device's allocator may show (default: from the schedule's own budget)",
    )
    parser.add_argument("--allow-code", action="store_true", help=cli_options.ALLOW_CODE_HELP)


def _add_export(commands: Any, common: Any) -> None:
    parser = _command(
        commands, "export", common, "verify a schedule, and write it as a TensorFlow training graph", _export,
        "checkmate export keras.applications.ResNet50 schedule.json -g resnet50.json -o out",
    )  # fmt: skip
    _model_of_graph(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="the folder to write")


def _add_verify(commands: Any, common: Any) -> None:
    parser = _command(
        commands, "verify", common, "measure a scheduled step, and compare it with the plain step", _verify
    )
    _model_of_graph(parser)


def _add_run(commands: Any, common: Any) -> None:
    parser = _command(
        commands, "run", common, "profile, solve, measure, verify and export in one go", _run,
        "checkmate run unet --budget 60% -o out",
    )  # fmt: skip
    cli_options.add_model(parser)
    parser.add_argument(
        "--budget",
        type=cli_options.budget,
        required=True,
        help="the budget: 6.5GiB, 16GB, 60%% of the plain step, or min",
    )
    parser.add_argument(
        "--costs",
        choices=("measured", "analytic"),
        default="measured",
        help="measured: time every op (default); analytic: count operations",
    )
    _add_refresh(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="the folder to write")
    cli_options.add_solver(parser, limit_s=20.0)


def _add_refresh(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--refresh",
        action="store_true",
        help="measure all costs again, even those that are in the cost cache",
    )


def _add_list(commands: Any, common: Any) -> None:
    parser = _command(commands, "list", common, "list what is available, and why something is not", _list)
    parser.add_argument("what", choices=("solvers", "devices", "loaders", "exporters", "models"))


def _explore(options: argparse.Namespace, interrupt: Interrupt) -> int:
    from app.bootstrap import explore

    return int(
        explore(
            options.file,
            screenshot=options.screenshot,
            animation=options.animation,
            size=options.size,
            theme=options.theme,
            budget=options.budget,
            at=options.at,
            batch_size=options.batch_size,
            allow_code=options.allow_code,
        )
    )


def _profile(options: argparse.Namespace, interrupt: Interrupt) -> int:
    from checkmate import pipeline
    from checkmate.formats import write_graph
    from checkmate.formats.files import require_writable

    require_writable(options.output)
    with progress_line(quiet=options.quiet) as report:
        graph = pipeline.profile(
            cli_options.model_request(options),
            costs=options.costs,
            refresh=options.refresh,
            report=report,
            cancelled=interrupt,
        )
    write_graph(options.output, graph)
    output.show(options.json, output.graph_facts(graph), output.profile_text(graph, options.output))
    return 0


def _info(options: argparse.Namespace, interrupt: Interrupt) -> int:
    from checkmate.graphs.by_name import read_or_build

    graph = read_or_build(options.graph)
    other = None if options.other is None else read_or_build(options.other)
    facts = output.graph_facts(graph, detailed=True)
    if other is None:
        output.show(options.json, facts, output.info_text(graph, facts))
        return 0
    both = facts, output.graph_facts(other, detailed=True)
    output.show(options.json, info_pair.pair_facts(*both), info_pair.pair_text((graph, other), both))
    return 0


def _solve(options: argparse.Namespace, interrupt: Interrupt) -> int:
    from checkmate.formats.files import require_writable
    from checkmate.graphs.by_name import read_or_build
    from checkmate.solvers.registry import find_solver

    find_solver(options.solver)
    for path in filter(None, (options.output, options.matrices)):
        require_writable(path)
    graph = read_or_build(options.graph)
    question = solve.question(graph, options, cli_options.solve_options(options))
    with progress_line(quiet=options.quiet) as report:
        answer = solve.answer(question, report, interrupt)
    if interrupt.asked:
        raise CancelledError("cancelled")  # an unfinished result is not the answer
    solve.write(answer, options.output, options.matrices)
    output.show(options.json, answer.facts(), answer.text(options.output))
    return output.solve_exit_code(answer.result.status)


def _check(options: argparse.Namespace, interrupt: Interrupt) -> int:
    from checkmate import pipeline
    from checkmate.formats import read_schedule
    from checkmate.graphs.by_name import read_or_build

    graph = read_or_build(options.graph)
    result = read_schedule(options.schedule, graph)
    assert result.schedule is not None
    budget = result.budget_bytes if options.budget is None else pipeline.resolve_budget(graph, options.budget)
    found = pipeline.check_schedule(graph, result.schedule.steps.tolist(), budget_bytes=budget)
    claims = output.false_claims(result, found)
    output.show(options.json, output.check_facts(found, claims), output.check_text(found, claims))
    return 0 if found.ok and not claims else 5


def _export(options: argparse.Namespace, interrupt: Interrupt) -> int:
    from checkmate import pipeline
    from checkmate.formats.report import report_to_json

    request, graph, result, budget = _scheduled(options)
    with progress_line(quiet=options.quiet) as report:
        found = pipeline.export(
            request, graph, result, options.output, budget_bytes=budget, report=report, cancelled=interrupt
        )
    output.show(options.json, report_to_json(found), output.report_text(found, options.output))
    return 0 if found.ok else 5


def _verify(options: argparse.Namespace, interrupt: Interrupt) -> int:
    from checkmate import pipeline
    from checkmate.formats.report import report_to_json

    request, graph, result, budget = _scheduled(options)
    with progress_line(quiet=options.quiet) as report:
        found = pipeline.verify(
            request, graph, result, budget_bytes=budget, report=report, cancelled=interrupt
        )
    output.show(options.json, report_to_json(found), output.report_text(found, None))
    return 0 if found.ok else 5


def _run(options: argparse.Namespace, interrupt: Interrupt) -> int:
    from checkmate import pipeline
    from checkmate.formats.report import report_to_json
    from checkmate.solvers.registry import find_solver

    find_solver(options.solver)
    with progress_line(quiet=options.quiet) as report:
        outcome = pipeline.run(
            cli_options.model_request(options),
            options.budget,
            options.output,
            costs=options.costs,
            refresh=options.refresh,
            solver=options.solver,
            options=cli_options.solve_options(options),
            report=report,
            cancelled=interrupt,
        )
    text = output.report_text(outcome.report, options.output)
    output.show(options.json, report_to_json(outcome.report), text)
    return 0 if outcome.report.ok else 5


def _list(options: argparse.Namespace, interrupt: Interrupt) -> int:
    from checkmate import listing

    rows = listing.listing(options.what)
    output.show(options.json, {options.what: rows}, output.listing_text(rows))
    return 0


def _scheduled(options: argparse.Namespace) -> tuple[ModelRequest, Any, Any, int | None]:
    """Return (request, graph, result, user's budget).

    It is for commands that take MODEL, S.json and -g G.json.
    """
    from checkmate import pipeline
    from checkmate.formats import read_any_graph, read_schedule
    from checkmate.graphs.by_name import graph_path

    graph = read_any_graph(graph_path(options.graph))
    recorded = graph.metadata.get("request")
    if not isinstance(recorded, dict):
        raise UsageError(
            f"{options.graph} was not profiled from a Keras model, so no training step can be made from it",
            hint="make a graph from the model first: checkmate profile MODEL -o G.json",
        )
    # Batch size, loss and shapes come from the graph; only the model's place comes from the user.
    recorded = {**recorded, "model": options.model, "allow_code": options.allow_code}
    result = read_schedule(options.schedule, graph)
    budget = None if options.budget is None else pipeline.resolve_budget(graph, options.budget)
    return ModelRequest.from_json(recorded), graph, result, budget


__all__ = ["build_parser", "main"]

if __name__ == "__main__":
    sys.exit(main())
