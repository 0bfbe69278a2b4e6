from __future__ import annotations

import argparse
from pathlib import Path

from checkmate.cli import common_options, output
from checkmate.machine.desktop_entry import data_folder, install_entry, remove_entry
from checkmate.terminal import Interrupt
from checkmate.units import plural


def add_explore(parser: argparse.ArgumentParser) -> None:
    common_options.describe(parser, _explore, example="checkmate explore unet")
    parser.add_argument(
        "file", metavar="FILE", nargs="?", help="a model, a sample, a graph or a saved exploration"
    )
    parser.add_argument(
        "--screenshot", type=Path, metavar="OUT.png", help="save a picture of the solved window and exit"
    )
    _add_figure(parser)
    parser.add_argument(
        "--size",
        type=common_options.window_size,
        help="size of the window in pixels (default 1600x1000)",
    )
    parser.add_argument(
        "--theme",
        choices=("light", "dark"),
        help="colours of the window (default: as chosen in it, else the system's)",
    )
    parser.add_argument(
        "--budget", type=common_options.budget, help="budget to start with, e.g. 6.5GiB or 60%%"
    )
    parser.add_argument(
        "--at", type=int, metavar="STEP", help="go to this step of the schedule, counted from 0"
    )
    parser.add_argument(
        "-b", "--batch-size", type=common_options.positive, help="examples per step, for a model (default 32)"
    )
    parser.add_argument("--allow-code", action="store_true", help=common_options.ALLOW_CODE_HELP)


def _add_figure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--figure", type=Path, metavar="OUT.pdf", help="save a figure for a paper (.pdf or .svg) and exit"
    )
    parser.add_argument(
        "--figure-of",
        choices=("curve", "rs", "r", "s", "frontier", "graph"),
        default="curve",
        help="what it shows (default: the memory curve; rs: R and S)",
    )
    parser.add_argument(
        "--figure-width",
        choices=("column", "page", "slide"),
        default="column",
        help="column: 3.3 in (default); page: two columns, 7 in; slide: 10 in",
    )
    parser.add_argument(
        "--font-size",
        type=float,
        metavar="POINTS",
        help="size of the figure's words (default: 8, on a slide 16)",
    )


def _explore(options: argparse.Namespace, interrupt: Interrupt) -> int:
    from app.bootstrap import explore
    from app.presenters.paper import figure_file

    figure = None
    if options.figure is not None:
        figure = figure_file(options.figure, options.figure_of, options.figure_width, options.font_size)
    code = explore(
        options.file,
        screenshot=options.screenshot,
        figure=figure,
        size=options.size,
        theme=options.theme,
        budget=options.budget,
        at=options.at,
        batch_size=options.batch_size,
        allow_code=options.allow_code,
    )
    written = [str(path) for path in (options.screenshot, options.figure) if path is not None]
    if written or options.json:
        facts = {"file": options.file, "written": written}
        output.show(options.json, facts, "\n".join(f"wrote {path}" for path in written))
    return code


def add_desktop(parser: argparse.ArgumentParser) -> None:
    common_options.describe(
        parser,
        _desktop,
        "Write a desktop entry and the icon into your data folder (~/.local/share, or XDG_DATA_HOME). Linux "
        "only; no root rights are needed.",
        example="checkmate desktop",
    )
    parser.add_argument("--remove", action="store_true", help="remove the window from the menu")


def _desktop(options: argparse.Namespace, interrupt: Interrupt) -> int:
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
