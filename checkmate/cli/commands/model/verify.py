"""Parse and run ``checkmate verify``."""

from __future__ import annotations

import argparse
from typing import Any

from checkmate.cli.shared import options as cli_options
from checkmate.cli.shared import output, scheduled
from checkmate.errors import ExitCode
from checkmate.terminal import Interrupt, progress_line


def add_verify(commands: Any, common: Any) -> None:
    """Add ``verify`` to the parser of all commands."""
    parser = cli_options.add_command(
        commands,
        "verify",
        common,
        "measure a scheduled step, and compare it with the plain step",
        _verify,
        tensorflow=True,
    )
    scheduled.add_scheduled(parser)


def _verify(options: argparse.Namespace, interrupt: Interrupt) -> int:
    from checkmate import planning
    from checkmate.formats.schedule import report_to_json

    request, graph, result, budget = scheduled.read_scheduled(options)
    with progress_line(quiet=options.quiet) as report:
        found = planning.verify(request, graph, result, budget=budget, report=report, cancelled=interrupt)
    output.show(options.json, report_to_json(found), output.report_text(found, None))
    return ExitCode.DONE if found.ok else ExitCode.NOT_AS_PROMISED
