"""Parse and run ``checkmate desktop``: the applications menu's entry."""

from __future__ import annotations

import argparse
from typing import Any

from checkmate.cli.shared import output
from checkmate.terminal import Interrupt


def add_desktop(commands: Any, common: Any) -> None:
    """Add ``desktop`` to the parser of all commands."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "desktop",
        parents=[common],
        help="add the window to the desktop's applications menu",
        description="Write a desktop entry and the icon into your data folder (~/.local/share, or "
        "XDG_DATA_HOME). The applications menu then shows the window. This needs no root rights and works "
        "from a virtual environment and with pipx. Linux only.",
        epilog="Example: checkmate desktop",
    )
    parser.add_argument("--remove", action="store_true", help="remove the window from the menu")
    parser.set_defaults(command=_desktop)


def _desktop(options: argparse.Namespace, interrupt: Interrupt) -> int:
    from checkmate.machine.desktop_entry import data_folder, install_entry, remove_entry
    from checkmate.units import plural

    data = data_folder()
    files = remove_entry(data) if options.remove else install_entry(data)
    facts = {"removed" if options.remove else "written": [str(path) for path in files]}
    if options.remove:
        text = (
            f"removed {plural(len(files), 'file')} from {data}" if files else f"there is no entry in {data}"
        )
    else:
        text = (
            f"Checkmate Explorer is in the applications menu: {files[-1]}; to remove it, run "
            "checkmate desktop --remove"
        )
    output.show(options.json, facts, text)
    return 0
