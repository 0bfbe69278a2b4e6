"""Parse and run ``checkmate info``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from checkmate.cli.shared import options as cli_options
from checkmate.cli.shared import output
from checkmate.terminal import Interrupt


def add_info(commands: Any, common: Any) -> None:
    """Add ``info`` to the parser of all commands."""
    parser = cli_options.add_command(
        commands, "info", common, "show what a graph holds and what fills its peak", _info
    )
    parser.add_argument("graph", type=Path, metavar="G.json", help=cli_options.GRAPH_HELP)


def _info(options: argparse.Namespace, interrupt: Interrupt) -> int:
    from checkmate.graphs.by_name import read_or_build

    graph = read_or_build(options.graph)
    facts = output.graph_facts(graph, detailed=True)
    output.show(options.json, facts, output.info_text(graph, facts))
    return 0
