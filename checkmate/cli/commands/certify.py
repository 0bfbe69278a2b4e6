"""``checkmate certify``; what a certificate proves, and how near a schedule is to it."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkmate import planning
from checkmate.cli import common_options, output
from checkmate.errors import ExitCode, UsageError
from checkmate.formats import read_schedule
from checkmate.formats.files import require_writable
from checkmate.formats.schedule import read_certificate, write_certificate
from checkmate.graphs.by_name import read_or_build
from checkmate.ir import CheckReport, Graph, SolveResult
from checkmate.planning import check_certificate
from checkmate.progress import Cancelled, Report
from checkmate.solvers.certificates import Certificate
from checkmate.terminal import Interrupt, progress_line
from checkmate.units import format_bytes, format_overhead, plural

_OPTIMAL = 1e-6  # a share of the cost that rounding may take


def add_certify(parser: argparse.ArgumentParser) -> None:
    common_options.describe(
        parser,
        _certify,
        "Prove for a budget that no schedule costs less, in any order, or that none fits. Python alone "
        "checks the file: checkmate/certificate/verify.py. More time proves more. Exit codes: 0 one was "
        "written, 4 there was not enough time for any.",
        example="checkmate certify resnet50.json schedule.json -o certificate.json",
    )
    common_options.add_graph(parser)
    parser.add_argument(
        "schedule", type=Path, nargs="?", metavar="S.json", help="a schedule: how near to the best is it?"
    )
    parser.add_argument(
        "--budget", type=common_options.budget, help="the budget (default: the schedule's own)"
    )
    common_options.add_time_limit(parser, 60.0, "seconds to prove as much as possible")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="C.json", help="the certificate file to write"
    )


def _certify(options: argparse.Namespace, interrupt: Interrupt) -> int:
    require_writable(options.output)
    graph = read_or_build(options.graph)
    given = None if options.schedule is None else read_schedule(options.schedule, graph)
    if options.budget is not None:
        budget = planning.resolve_budget(graph, options.budget)
    elif given is not None and given.budget_bytes is not None:
        budget = given.budget_bytes
    else:
        raise UsageError("certify needs a budget", hint="add --budget 60%, or name a schedule file")
    with progress_line(quiet=options.quiet) as report:
        found = certified(
            graph,
            budget,
            options.output,
            known_cost=math.inf if given is None else _cost_of(graph, given, budget),
            seconds=options.time_limit,
            report=report,
            cancelled=interrupt,
        )
    if found is None:
        return no_certificate(options.time_limit)
    output.show(options.json, found.facts(), found.text())
    return 0


def no_certificate(seconds: float) -> ExitCode:
    output.complain(f"no certificate was made in {seconds:g} s", "give it more time: --time-limit 600")
    return ExitCode.NO_SCHEDULE


def _cost_of(graph: Graph, given: SolveResult, budget: int) -> float:
    checked = planning.check_schedule(graph, given, budget=budget)
    if not checked.ok:
        raise UsageError(
            f"the schedule does not keep {format_bytes(budget)}", hint="checkmate check says what is wrong"
        )
    return checked.cost


@dataclass(frozen=True)
class Proved:
    """``cost``: no schedule within ``budget_bytes`` costs less; None: none fits. ``schedule_cost``: infinite
    without a schedule.
    """

    budget_bytes: int
    cost: float | None
    schedule_cost: float = math.inf

    @property
    def gap(self) -> float | None:
        """The share of the schedule's cost that may be saved at most."""
        if self.cost is None or not math.isfinite(self.schedule_cost):
            return None
        return max(0.0, 1 - self.cost / self.schedule_cost) if self.schedule_cost else 0.0

    def facts(self) -> dict[str, Any]:
        return {
            "claim": "infeasible" if self.cost is None else "cost",
            "budget_bytes": self.budget_bytes,
            "cost": self.cost,
            "schedule_cost": self.schedule_cost if math.isfinite(self.schedule_cost) else None,
            "gap": self.gap,
        }

    def text(self, graph: Graph) -> str:
        budget = format_bytes(self.budget_bytes)
        if self.cost is None:
            return f"proved: no schedule of {graph.name} fits {budget}"
        least = f"{self.cost:.6g} ({format_overhead(self.cost, graph.base_cost)})"
        said = f"proved: no schedule of {graph.name} within {budget} costs less than {least}"
        if self.gap is None:
            return said
        near = "it is optimal" if self.gap <= _OPTIMAL else f"at most {100 * self.gap:.3g} % above the least"
        over = format_overhead(self.schedule_cost, graph.base_cost)
        return f"{said}\n  the schedule costs {self.schedule_cost:.6g} ({over}): {near}"


def proved_by(graph: Graph, path: Path, schedule: CheckReport | None = None) -> Proved:
    """Check the certificate in ``path``; return what it proves.

    Raises:
        FormatError, ScheduleError: it is no certificate for this graph. VerificationError: it does not hold.
        UsageError: the schedule needs more memory than the certificate speaks of.
    """
    content = read_certificate(path, graph)
    budget = int(content["budget_bytes"])
    cost = check_certificate(graph, content)
    if schedule is None:
        return Proved(budget, cost)
    if schedule.peak_bytes > budget:
        raise UsageError(
            f"the certificate is for {format_bytes(budget)}, and the schedule needs "
            f"{format_bytes(schedule.peak_bytes)}",
            hint="make a certificate for the schedule: checkmate certify G.json S.json -o C.json",
        )
    return Proved(budget, cost, schedule.cost)


@dataclass(frozen=True, eq=False)
class Certified:
    graph: Graph
    certificate: Certificate
    proved: Proved
    path: Path

    def facts(self) -> dict[str, Any]:
        found = self.certificate
        return {
            **self.proved.facts(),
            "bound": found.bound if math.isfinite(found.bound) else None,
            "base_cost": self.graph.base_cost,
            "cases": found.cases,
        }

    def text(self) -> str:
        found = self.certificate
        lines = [self.proved.text(self.graph)]
        if found.cost is not None and found.bound > found.cost * (1 + 1e-7):
            more = format_overhead(found.bound, self.graph.base_cost)
            lines.append(f"  a solver proves {more}; with more time the certificate may prove it too")
        lines.append(f"wrote {self.path}: {plural(found.cases, 'case')}")
        return "\n".join(lines)


def certified(
    graph: Graph,
    budget: int,
    path: Path,
    *,
    known_cost: float,
    seconds: float,
    report: Report,
    cancelled: Cancelled,
) -> Certified | None:
    """Make a certificate and write it; None where there was not enough time for any.

    ``known_cost``: of the schedule beside it; infinite where there is none.
    """
    found = planning.certify(
        graph, budget, known_cost=known_cost, seconds=seconds, report=report, cancelled=cancelled
    )
    if found is None:
        return None
    write_certificate(path, found.data)
    return Certified(graph, found, Proved(found.budget_bytes, found.cost, known_cost), path)
