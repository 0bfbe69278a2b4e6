"""Parse and run ``checkmate export``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from checkmate.cli.shared import options as cli_options
from checkmate.cli.shared import output, scheduled
from checkmate.errors import ExitCode
from checkmate.terminal import Interrupt, progress_line


def add_export(commands: Any, common: Any) -> None:
    """Add ``export`` to the parser of all commands."""
    parser = cli_options.add_command(
        commands,
        "export",
        common,
        "verify a schedule, and write it as a TensorFlow training graph",
        _export,
        "checkmate export keras.applications.ResNet50 schedule.json -g resnet50.json --budget 60% -o out",
        tensorflow=True,
    )
    scheduled.add_scheduled(parser, over="; with it, a schedule that shows more is replaced by one that fits")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="the folder to write")


def _export(options: argparse.Namespace, interrupt: Interrupt) -> int:
    from checkmate import planning
    from checkmate.formats.schedule import report_to_json

    request, graph, result, budget = scheduled.read_scheduled(options)
    folder = options.output
    with progress_line(quiet=options.quiet) as report:
        if budget is None:
            found = planning.export(request, graph, result, folder, report=report, cancelled=interrupt)
        else:
            found = planning.export_within(
                request, graph, result, budget, folder, report=report, cancelled=interrupt
            ).report
    output.show(options.json, report_to_json(found), output.report_text(found, folder))
    return ExitCode.DONE if found.ok else ExitCode.NOT_AS_PROMISED
