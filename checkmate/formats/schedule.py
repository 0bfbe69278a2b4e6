"""Results: ``checkmate-schedule``, ``-report`` and ``-certificate``, all version 1.

``checkmate.certificate.verify`` says what a certificate's fields mean.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from checkmate.errors import FingerprintMismatchError, FormatError, ScheduleError
from checkmate.formats.files import Fields, read_json, write_bytes, write_json
from checkmate.formats.graph import require_version, write_graph
from checkmate.ir import Graph, Schedule, SolveResult, SolveStatus, VerificationReport

FORMAT, VERSION = "checkmate-schedule", 1


def result_to_json(graph: Graph, result: SolveResult) -> dict[str, Any]:
    """``graph_fingerprint`` is what the graph's file states, ``graph_digest`` the one computed here."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "graph_fingerprint": graph.declared_fingerprint or graph.fingerprint,
        "graph_digest": graph.fingerprint,
        "graph_name": graph.name,
        "steps": [] if result.schedule is None else result.schedule.steps.tolist(),
        **result_facts(result),
        "cost_unit": graph.cost_unit.value,
        "gap": result.gap,
    }


def write_schedule(path: Path, graph: Graph, result: SolveResult) -> None:
    """Raise NoScheduleError where there is no schedule to write."""
    result.require_schedule()
    write_json(path, result_to_json(graph, result))


def read_schedule(path: Path, graph: Graph) -> SolveResult:
    """Raise FormatError, or FingerprintMismatchError where the schedule is for another graph."""
    return result_from_json(path, read_json(path), graph)


def result_from_json(path: Path, data: Any, graph: Graph, where: str = "") -> SolveResult:
    """``path`` and the place ``where`` are for messages."""
    fields = Fields(path, data, where)
    require_version(fields, FORMAT, VERSION, "checkmate solve G.json --budget B -o S.json writes a schedule")
    _require_graph(fields, graph)
    steps = fields.ids("steps")
    status = fields.choice("status", SolveStatus, SolveStatus.FEASIBLE)
    if not status.has_schedule or not steps:
        place = f"{where} " if where else ""
        raise FormatError(
            f"{path}: {place}holds no schedule (status {status.value})",
            hint="solve again with a larger budget",
        )
    try:
        schedule = Schedule(np.array(steps, dtype=np.int64), graph.fingerprint)
        schedule.require_graph(graph)
    except ScheduleError as error:
        raise FormatError(f"{path}: {where}{'.' if where else ''}{error}") from error
    budget = fields.whole("budget_bytes", None)
    peak = fields.whole("peak_bytes", None)
    cost = fields.number("cost", None)
    return SolveResult(
        status=status,
        solver=fields.get("solver", str, "unknown"),
        budget_bytes=budget if budget is not None else (peak or 0),
        base_cost=fields.number("base_cost", graph.base_cost),
        schedule=schedule,
        cost=cost if cost is not None else float(graph.cost[schedule.steps].sum()),
        peak_bytes=peak if peak is not None else 0,
        lower_bound=fields.number("lower_bound", None),
        solve_seconds=fields.number("solve_seconds", 0.0) or 0.0,
        assumptions=tuple(str(entry) for entry in fields.get("assumptions", list, [])),
        message=fields.get("message", str, ""),
    )


def _require_graph(fields: Fields, graph: Graph) -> None:
    """Compare digests, or fingerprints where the file has no digest."""
    stated = fields.get("graph_fingerprint", str)
    digest = fields.get("graph_digest", str, None)
    matches = digest == graph.fingerprint if digest is not None else graph.accepts_fingerprint(stated)
    if not matches:
        raise FingerprintMismatchError(
            found=digest or stated, expected=graph.fingerprint, graph_name=graph.name
        )


def write_matrices(path: Path, graph: Graph, schedule: Schedule) -> None:
    """Write R and S (bool, stages x ops, columns in op order) and the ``order`` (the op that ends each
    stage).
    """
    matrices = schedule.matrices(graph)
    column = np.argsort(matrices.order)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, R=matrices.R[:, column], S=matrices.S[:, column], order=matrices.order)
    write_bytes(path, buffer.getvalue())


def result_facts(result: SolveResult) -> dict[str, Any]:
    """``lower_bound`` may be infinite; the schedule and statistics are left out."""
    return {
        "solver": result.solver,
        "status": result.status.value,
        "budget_bytes": int(result.budget_bytes),
        "peak_bytes": None if result.peak_bytes is None else int(result.peak_bytes),
        "cost": _number(result.cost),
        "base_cost": float(result.base_cost),
        "lower_bound": _number(result.lower_bound),
        "solve_seconds": float(result.solve_seconds),
        "assumptions": list(result.assumptions),
        "message": result.message,
    }


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)


def report_to_json(report: VerificationReport) -> dict[str, Any]:
    """Null stands for what is not finite."""
    content = {
        "format": "checkmate-report",
        "version": 1,
        "model": report.model,
        "device": report.device,
        "settings": dict(report.settings),
        "batch_size": report.batch_size,
        "budget_bytes": report.budget_bytes,
        "gradients": dict(report.gradients),
        "loss": dict(report.loss),
        "peak_bytes": dict(report.peak_bytes),
        "seconds": dict(report.seconds),
        "recomputations": report.recomputations,
        "steps": report.steps,
        "ok": report.ok,
        "problems": list(report.problems),
        "notes": list(report.notes),
        "plain_step": dict(report.plain),
        "measured_live_bytes": list(report.live_bytes),
    }
    return {name: _finite(value) for name, value in content.items()}


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_report(path: Path, report: VerificationReport) -> None:
    write_json(path, report_to_json(report))


CERTIFICATE_FORMAT, CERTIFICATE_VERSION = "checkmate-certificate", 1
_WRITTEN_BY = "checkmate certify G.json --budget B -o C.json writes one"


def read_certificate(path: Path, graph: Graph) -> dict[str, Any]:
    """Only the certificate's outline is looked at: ``verify`` judges.

    Raises:
        FormatError: the file is no certificate. ScheduleError: it is for another graph.
    """
    fields = Fields(path, read_json(path))
    require_version(fields, CERTIFICATE_FORMAT, CERTIFICATE_VERSION, _WRITTEN_BY)
    fields.whole("budget_bytes")
    fields.ids("cuts")
    fields.get("proof", list)
    if not graph.accepts_fingerprint(fields.get("graph_fingerprint", str)):
        raise ScheduleError(
            f"{path} is for another graph than {graph.name}", hint="make one with checkmate certify"
        )
    return dict(fields.data)


def write_certificate(path: Path, content: Mapping[str, Any]) -> None:
    write_json(path, {"format": CERTIFICATE_FORMAT, "version": CERTIFICATE_VERSION, **content})


def write_records(folder: Path, graph: Graph, result: SolveResult, report: VerificationReport) -> None:
    write_graph(folder / "graph.json", graph)
    write_schedule(folder / "schedule.json", graph, result)
    write_report(folder / "report.json", report)
