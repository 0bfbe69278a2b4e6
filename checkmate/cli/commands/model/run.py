"""Parse and run ``checkmate run``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from checkmate.cli.shared import options as cli_options
from checkmate.cli.shared import output
from checkmate.errors import ExitCode
from checkmate.terminal import Interrupt, progress_line


def add_run(commands: Any, common: Any) -> None:
    """Add ``run`` to the parser of all commands."""
    parser = cli_options.add_command(
        commands,
        "run",
        common,
        "profile, solve, measure, verify and export in one go",
        _run,
        "checkmate run unet --budget 60% -o out",
        tensorflow=True,
    )
    cli_options.add_model(parser)
    parser.add_argument(
        "--budget",
        type=cli_options.budget,
        required=True,
        help="the budget: 6.5GiB, 16GB, 60%% of the plain step, or min",
    )
    cli_options.add_costs(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="the folder to write")
    cli_options.add_solver(parser, limit_s=20.0)


def _run(options: argparse.Namespace, interrupt: Interrupt) -> int:
    from checkmate import planning
    from checkmate.formats.schedule import report_to_json
    from checkmate.solvers.registry import find_solver

    find_solver(options.solver)
    with progress_line(quiet=options.quiet) as report:
        outcome = planning.run(
            cli_options.model_request(options),
            options.budget,
            options.output,
            costs=options.costs,
            refresh=options.refresh,
            solver=options.solver,
            options=cli_options.solve_options(options),
            report=report,
            cancelled=interrupt,
        )
    text = output.report_text(outcome.report, options.output)
    output.show(options.json, report_to_json(outcome.report), text)
    return ExitCode.DONE if outcome.report.ok else ExitCode.NOT_AS_PROMISED
