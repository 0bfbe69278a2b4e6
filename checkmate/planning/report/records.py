"""What a run leaves: its outcome, and the files in its folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from checkmate.formats import write_graph, write_report, write_schedule
from checkmate.ir.graph import Graph
from checkmate.ir.report import VerificationReport
from checkmate.ir.result import SolveResult


@dataclass(frozen=True, eq=False)
class RunOutcome:
    """What ``run`` found.

    It has the measured report, the schedule that fits, and the graph that it is for.
    """

    report: VerificationReport
    result: SolveResult
    graph: Graph


def write_records(folder: Path, graph: Graph, result: SolveResult, report: VerificationReport) -> None:
    """Write the three JSON files of a run into ``folder``.

    They are ``graph.json``, ``schedule.json`` and ``report.json``.

    Raises:
        OSError: a file cannot be written.
    """
    write_graph(folder / "graph.json", graph)
    write_schedule(folder / "schedule.json", graph, result)
    write_report(folder / "report.json", report)
