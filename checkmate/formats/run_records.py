"""The JSON files that stand beside an exported step."""

from __future__ import annotations

from pathlib import Path

from checkmate.formats import write_graph, write_report, write_schedule
from checkmate.ir.graph import Graph
from checkmate.ir.report import VerificationReport
from checkmate.ir.result import SolveResult


def write_records(folder: Path, graph: Graph, result: SolveResult, report: VerificationReport) -> None:
    """Write ``graph.json``, ``schedule.json`` and ``report.json`` of a run into ``folder``.

    Raises:
        OSError: a file cannot be written.
    """
    write_graph(folder / "graph.json", graph)
    write_schedule(folder / "schedule.json", graph, result)
    write_report(folder / "report.json", report)
