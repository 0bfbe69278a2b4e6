"""``profile``, ``verify``, ``export`` and ``run``: what measures a model's step."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from checkmate import planning
from checkmate.cli import common_options, output
from checkmate.cli.step_report import profile_text, report_text
from checkmate.errors import ExitCode
from checkmate.formats import write_graph
from checkmate.formats.files import require_writable
from checkmate.formats.schedule import report_to_json
from checkmate.ir import VerificationReport
from checkmate.solvers.registry import find_solver
from checkmate.terminal import Interrupt


def add_profile(parser: argparse.ArgumentParser) -> None:
    common_options.describe(
        parser,
        _profile,
        example="checkmate profile keras.applications.ResNet50 -b 8 -o resnet50.json",
        tensorflow=True,
    )
    common_options.add_model(parser)
    common_options.add_costs(parser)
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="G.json", help="the graph file to write"
    )


def add_export(parser: argparse.ArgumentParser) -> None:
    common_options.describe(
        parser,
        _export,
        example="checkmate export keras.applications.ResNet50 schedule.json -g resnet50.json --budget 60% "
        "-o out",
        tensorflow=True,
    )
    _add_scheduled(parser, over="; with it, a schedule that shows more is replaced by one that fits")
    _add_folder(parser)


def add_verify(parser: argparse.ArgumentParser) -> None:
    common_options.describe(parser, _verify, tensorflow=True)
    _add_scheduled(parser)


def add_run(parser: argparse.ArgumentParser) -> None:
    common_options.describe(parser, _run, example="checkmate run unet --budget 60% -o out", tensorflow=True)
    common_options.add_model(parser)
    parser.add_argument(
        "--budget",
        type=common_options.budget,
        required=True,
        help="the budget: 6.5GiB, 16GB, 60%% of the plain step, or min",
    )
    common_options.add_costs(parser)
    _add_folder(parser)
    common_options.add_solver(parser, limit_s=20.0)


def _add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="the folder to write")


def _add_scheduled(parser: argparse.ArgumentParser, *, over: str = "") -> None:
    """``over``: what the help adds on a schedule that is over the budget."""
    parser.add_argument("model", metavar="MODEL", help="the model that the graph was profiled from")
    parser.add_argument("schedule", type=Path, metavar="S.json", help="a schedule file for this graph")
    parser.add_argument(
        "-g", "--graph", type=Path, required=True, metavar="G.json", help="the profiled graph"
    )
    parser.add_argument(
        "--budget",
        type=common_options.budget,
        help="the most memory that the device's allocator may show; 60%% is of the plain step's peak "
        f"(default: from the schedule's own budget){over}",
    )
    common_options.add_target(parser)
    parser.add_argument("--allow-code", action="store_true", help=common_options.ALLOW_CODE_HELP)


def _profile(options: argparse.Namespace, interrupt: Interrupt) -> int:
    require_writable(options.output)
    graph = planning.profile(
        common_options.model_request(options),
        costs=options.costs,
        refresh=options.refresh,
        quiet=options.quiet,
        cancelled=interrupt,
    )
    write_graph(options.output, graph)
    output.show(options.json, output.graph_facts(graph), profile_text(graph, options.output))
    return 0


def _verify(options: argparse.Namespace, interrupt: Interrupt) -> int:
    asked = _scheduled(options, interrupt)
    return _shown(options, planning.verify(**asked, budget=options.budget), None)


def _export(options: argparse.Namespace, interrupt: Interrupt) -> int:
    asked = _scheduled(options, interrupt) | {"directory": options.output}
    if options.budget is None:
        return _shown(options, planning.export(**asked), options.output)
    asked["first"] = asked.pop("result")
    found = planning.export_within(**asked, budget=options.budget)
    return _shown(options, found.report, options.output)


def _scheduled(options: argparse.Namespace, interrupt: Interrupt) -> dict[str, Any]:
    return {
        "model": options.model,
        "graph": options.graph,
        "result": options.schedule,
        "target": options.target,
        "allow_code": options.allow_code,
        "quiet": options.quiet,
        "cancelled": interrupt,
    }


def _run(options: argparse.Namespace, interrupt: Interrupt) -> int:
    find_solver(options.solver)
    outcome = planning.run(
        common_options.model_request(options),
        options.budget,
        options.output,
        costs=options.costs,
        refresh=options.refresh,
        solver=options.solver,
        options=common_options.solve_options(options),
        quiet=options.quiet,
        cancelled=interrupt,
    )
    return _shown(options, outcome.report, options.output)


def _shown(options: argparse.Namespace, found: VerificationReport, folder: Path | None) -> int:
    output.show(options.json, report_to_json(found), report_text(found, folder))
    return ExitCode.DONE if found.ok else ExitCode.NOT_AS_PROMISED
