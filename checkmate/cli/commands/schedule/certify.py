"""Parse and run ``checkmate certify``."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkmate.cli.shared import options as cli_options
from checkmate.cli.shared import output
from checkmate.cli.shared.certified import certified
from checkmate.errors import ExitCode, UsageError
from checkmate.ir.graph import Graph
from checkmate.terminal import Interrupt, progress_line
from checkmate.units import format_bytes

if TYPE_CHECKING:
    from checkmate.ir.result import SolveResult

_SECONDS = 60.0


def add_certify(commands: Any, common: Any) -> None:
    """Add ``certify`` to the parser of all commands."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "certify",
        parents=[common],
        help="write a proof that others can check: no schedule costs less, or none fits",
        description="Prove for a budget that no schedule costs less, in any order and with any "
        "recomputation, or that none fits. The proof is a file. checkmate/certificate/verify.py checks it "
        "with exact sums: it is short, shares no code with the solvers, and needs Python alone. With more "
        "time a certificate proves more. The exit code is 0 if one was written, 4 if there was not enough "
        "time for any.",
        epilog="Example: checkmate certify resnet50.json schedule.json -o certificate.json",
    )
    parser.add_argument("graph", type=Path, metavar="G.json", help=cli_options.GRAPH_HELP)
    parser.add_argument(
        "schedule", type=Path, nargs="?", metavar="S.json", help="a schedule: how near to the best is it?"
    )
    parser.add_argument("--budget", type=cli_options.budget, help="the budget (default: the schedule's own)")
    parser.add_argument(
        "--time-limit",
        type=cli_options.seconds,
        default=_SECONDS,
        help=f"seconds to prove as much as possible (default {_SECONDS:g})",
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="C.json", help="the certificate file to write"
    )
    parser.set_defaults(command=_certify)


def _certify(options: argparse.Namespace, interrupt: Interrupt) -> int:
    from checkmate import planning
    from checkmate.formats import read_schedule
    from checkmate.formats.files import require_writable
    from checkmate.graphs.by_name import read_or_build

    require_writable(options.output)
    graph = read_or_build(options.graph)
    given = None if options.schedule is None else read_schedule(options.schedule, graph)
    if options.budget is None and (given is None or given.budget_bytes is None):
        raise UsageError("certify needs a budget", hint="add --budget 60%, or name a schedule file")
    budget = given.budget_bytes if options.budget is None else planning.resolve_budget(graph, options.budget)  # type: ignore[union-attr]
    known = math.inf if given is None else _cost_of(graph, given, budget)
    with progress_line(quiet=options.quiet) as report:
        found = certified(
            graph,
            budget,
            options.output,
            known_cost=known,
            seconds=options.time_limit,
            report=report,
            cancelled=interrupt,
        )
    if found is None:
        sentence = f"no certificate was made in {options.time_limit:g} s"
        output.complain(sentence, "give it more time: --time-limit 600")
        return ExitCode.NO_SCHEDULE
    output.show(options.json, found.facts(), found.text())
    return 0


def _cost_of(graph: Graph, given: SolveResult, budget: int) -> float:
    from checkmate import planning

    assert given.schedule is not None
    checked = planning.check_schedule(graph, given.schedule.steps.tolist(), budget=budget)
    if not checked.ok:
        raise UsageError(
            f"the schedule does not keep {format_bytes(budget)}", hint="checkmate check says what is wrong"
        )
    return checked.cost
