"""Read the arguments of commands that measure: MODEL, S.json, G.json."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from checkmate.cli.shared import options as cli_options
from checkmate.errors import UsageError
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
    from checkmate.formats import read_schedule
    from checkmate.graphs.by_name import read_or_build

    graph = read_or_build(options.graph)
    recorded = graph.metadata.get("request")
    if not isinstance(recorded, dict):
        raise UsageError(
            f"{options.graph} was not profiled from a Keras model, so no training step can be made from it",
            hint="make a graph from the model first: checkmate profile MODEL -o G.json",
        )
    # Batch size, loss and shapes come from the graph; only the model's place comes from the user.
    recorded = {**recorded, "model": options.model, "allow_code": options.allow_code}
    if options.target is not None:
        recorded["target"] = options.target
    result = read_schedule(options.schedule, graph)
    return ModelRequest.from_json(recorded), graph, result, options.budget
