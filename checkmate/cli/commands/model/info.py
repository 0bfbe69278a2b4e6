"""Parse and run ``checkmate info``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from checkmate.cli.commands.model import info_pair
from checkmate.cli.shared import options as cli_options
from checkmate.cli.shared import output
from checkmate.terminal import Interrupt, progress_line


def add_info(commands: Any, common: Any) -> None:
    """Add ``info`` to the parser of all commands."""
    parser = cli_options.add_command(
        commands, "info", common, "show what a graph holds and what fills its peak", _info
    )
    parser.add_argument("graph", type=Path, metavar="G.json", help=cli_options.GRAPH_HELP)
    parser.add_argument(
        "other", type=Path, metavar="B.json", nargs="?", help="another graph, to show both side by side"
    )


def _info(options: argparse.Namespace, interrupt: Interrupt) -> int:
    from checkmate.graphs.by_name import read_or_build

    with progress_line(quiet=options.quiet):
        graph = read_or_build(options.graph)
        other = None if options.other is None else read_or_build(options.other)
        facts = output.graph_facts(graph, detailed=True)
        other_facts = None if other is None else output.graph_facts(other, detailed=True)
    if other is None or other_facts is None:
        output.show(options.json, facts, output.info_text(graph, facts))
        return 0
    both = facts, other_facts
    output.show(options.json, info_pair.pair_facts(*both), info_pair.pair_text((graph, other), both))
    return 0
