from __future__ import annotations

import argparse
from pathlib import Path

from checkmate import python_api
from checkmate.cli import common_options, output
from checkmate.terminal import Interrupt

_TITLE = "Results of Checkmate Explorer"


def add_report(parser: argparse.ArgumentParser) -> None:
    common_options.describe(
        parser,
        _report,
        "Make one HTML page of curves and tables. Results are what frontier -o curve.json and max-batch "
        "--json write, the folder of a run or an export, a schedule beside its graph, an exploration, "
        "or a folder of these. The page needs no other file and can be printed.",
        example="checkmate report batch.json curve.json out -o report.html",
    )
    add = parser.add_argument
    add(
        "results",
        type=Path,
        metavar="RUN",
        nargs="+",
        help="a result file, or a folder of result files; each becomes a section",
    )
    add("-o", "--output", type=Path, required=True, metavar="report.html", help="the page to write")
    add("--title", default=_TITLE, help=f"title of the page (default: {_TITLE})")


def _report(options: argparse.Namespace, interrupt: Interrupt) -> int:
    found = python_api.report(
        options.results, options.output, title=options.title, quiet=options.quiet, cancelled=interrupt
    )
    facts = {
        "output": str(options.output),
        "sections": [{"title": one.title, "sources": list(one.sources)} for one in found.sections],
        "left_out": list(found.left_out),
    }
    lines = [f"  {one.title} (from {', '.join(one.sources)})" for one in found.sections]
    lines += [f"  left out: {sentence}" for sentence in found.left_out]
    output.show(options.json, facts, "\n".join([f"wrote {options.output}", *lines]))
    return 0
