"""Read the arguments of commands that measure: MODEL, S.json, G.json."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from checkmate.cli.shared import options as cli_options
from checkmate.request import ModelRequest
from checkmate.units import Budget


def add_scheduled(parser: argparse.ArgumentParser, *, over: str = "") -> None:
    """Add the model, its schedule and graph, and the budget on the meter.

    ``over``: what the help adds on a schedule that is over that budget.
    """
    parser.add_argument("model", metavar="MODEL", help="the model that the graph was profiled from")
    parser.add_argument("schedule", type=Path, metavar="S.json", help="a schedule file for this graph")
    parser.add_argument(
        "-g", "--graph", type=Path, required=True, metavar="G.json", help="the profiled graph"
    )
    parser.add_argument(
        "--budget",
        type=cli_options.budget,
        help="the most memory that the device's allocator may show; 60%% is of the plain step's peak "
        f"(default: from the schedule's own budget){over}",
    )
    cli_options.add_target(parser)
    parser.add_argument("--allow-code", action="store_true", help=cli_options.ALLOW_CODE_HELP)


def read_scheduled(options: argparse.Namespace) -> tuple[ModelRequest, Any, Any, Budget | None]:
    """Return (request, graph, result, user's budget).

    It is for commands that take MODEL, S.json and -g G.json.
    """
    from checkmate.arguments import graph_of, request_for, request_of, result_of

    graph = graph_of(options.graph)
    named = request_of(options.model, target=options.target, allow_code=options.allow_code)
    request = request_for(named, graph)
    return request, graph, result_of(options.schedule, graph), options.budget
