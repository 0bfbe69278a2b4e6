"""Parse and run ``checkmate list``."""

from __future__ import annotations

import argparse
from typing import Any

from checkmate.cli.shared import options as cli_options
from checkmate.cli.shared import output
from checkmate.terminal import Interrupt, progress_line


def add_list(commands: Any, common: Any) -> None:
    """Add ``list`` to the parser of all commands."""
    parser = cli_options.add_command(
        commands, "list", common, "list what is available, and why something is not", _list
    )
    parser.add_argument("what", choices=("solvers", "devices", "loaders", "exporters", "models"))


def _list(options: argparse.Namespace, interrupt: Interrupt) -> int:
    from checkmate import listing

    with progress_line(quiet=options.quiet):
        rows = listing.listing(options.what)
    output.show(options.json, {options.what: rows}, output.listing_text(rows))
    return 0
