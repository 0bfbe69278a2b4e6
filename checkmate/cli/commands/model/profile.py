"""Parse and run ``checkmate profile``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from checkmate.cli.shared import options as cli_options
from checkmate.cli.shared import output
from checkmate.terminal import Interrupt, progress_line


def add_profile(commands: Any, common: Any) -> None:
    """Add ``profile`` to the parser of all commands."""
    parser = cli_options.add_command(
        commands,
        "profile",
        common,
        "trace a model's training step and find the cost of every op",
        _profile,
        "checkmate profile keras.applications.ResNet50 -b 8 -o resnet50.json",
        tensorflow=True,
    )
    cli_options.add_model(parser)
    cli_options.add_costs(parser)
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="G.json", help="the graph file to write"
    )


def _profile(options: argparse.Namespace, interrupt: Interrupt) -> int:
    from checkmate import planning
    from checkmate.formats import write_graph
    from checkmate.formats.files import require_writable

    require_writable(options.output)
    with progress_line(quiet=options.quiet) as report:
        graph = planning.profile(
            cli_options.model_request(options),
            costs=options.costs,
            refresh=options.refresh,
            report=report,
            cancelled=interrupt,
        )
    write_graph(options.output, graph)
    output.show(options.json, output.graph_facts(graph), output.profile_text(graph, options.output))
    return 0
