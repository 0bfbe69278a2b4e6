"""Read and write ``checkmate-schedule`` version 1.

It holds a solve's result as JSON; its matrices R and S go to an ``.npz``.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from checkmate.errors import FingerprintMismatchError, FormatError, ScheduleError
from checkmate.formats.files import Fields, read_json, write_bytes, write_json
from checkmate.formats.graph import require_version
from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.ir.schedule import Schedule

FORMAT, VERSION = "checkmate-schedule", 1


def result_to_json(graph: Graph, result: SolveResult) -> dict[str, Any]:
    """Return the file's content.

    A result without a schedule has empty ``steps``. ``graph_fingerprint`` is the one that the graph's file
    states, ``graph_digest`` the one computed from its content.
    """
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
    """Write ``result``.

    Raises:
        FormatError: the file cannot be written. NoScheduleError: there is no schedule to write.
    """
    result.require_schedule()
    write_json(path, result_to_json(graph, result))


def read_schedule(path: Path, graph: Graph) -> SolveResult:
    """Return the result in ``path``, for ``graph``.

    Raises:
        FormatError: the file is not a valid schedule. FingerprintMismatchError: it is for another graph.
    """
    return result_from_json(path, read_json(path), graph)


def result_from_json(path: Path, data: Any, graph: Graph, where: str = "") -> SolveResult:
    """Return the result that ``data`` describes.

    ``path``, and the place ``where`` it is in that file, are for messages.
    """
    fields = Fields(path, data, where)
    require_version(fields, FORMAT, VERSION, "checkmate solve G.json --budget B -o S.json writes a schedule")
    _require_graph(fields, graph)
    steps = fields.ids("steps")
    status = fields.get("status", str, SolveStatus.FEASIBLE.value)
    try:
        kind = SolveStatus(status)
    except ValueError:
        known = ", ".join(entry.value for entry in SolveStatus)
        raise FormatError(f"{path}: {fields.name('status')} is {status!r}, not one of {known}") from None
    if not kind.has_schedule or not steps:
        place = f"{where} " if where else ""
        raise FormatError(
            f"{path}: {place}holds no schedule (status {status})", hint="solve again with a larger budget"
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
        status=kind,
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
    """Raise unless the schedule belongs to ``graph``.

    A digest of our own decides. A foreign schedule is matched by the fingerprint that its graph's file
    states.
    """
    stated = fields.get("graph_fingerprint", str)
    digest = fields.get("graph_digest", str, None)
    matches = digest == graph.fingerprint if digest is not None else graph.accepts_fingerprint(stated)
    if not matches:
        raise FingerprintMismatchError(
            found=digest or stated, expected=graph.fingerprint, graph_name=graph.name
        )


def write_matrices(path: Path, graph: Graph, schedule: Schedule) -> None:
    """Write the matrices R and S and the ``order`` as ``.npz``.

    R and S are bool, stages x ops, with columns in op order. ``order`` is the op that ends each stage.

    Raises:
        FormatError: the file cannot be written.
    """
    matrices = schedule.matrices(graph)
    column = np.argsort(matrices.order)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, R=matrices.R[:, column], S=matrices.S[:, column], order=matrices.order)
    write_bytes(path, buffer.getvalue())


def result_facts(result: SolveResult) -> dict[str, Any]:
    """Return the result's fields, without its schedule and statistics.

    Sizes are in bytes, costs in the graph's unit. ``lower_bound`` may be infinite, which strict JSON cannot
    express.
    """
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
