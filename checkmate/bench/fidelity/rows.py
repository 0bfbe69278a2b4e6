"""Compare prediction with measurement for models × budgets.

Peak, time and gradients are measured in fresh processes. A run can be resumed.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkmate import planning
from checkmate.bench.common import rows as saved
from checkmate.bench.common.machine import Machine
from checkmate.bench.common.rows import Row, Save, file_of_rows, saving
from checkmate.catalog.zoo import ZOO, find_zoo_model
from checkmate.errors import UsageError
from checkmate.machine.supported import JAX, require_backend
from checkmate.progress import Cancelled, Progress, Report, never, silent, stop_if
from checkmate.request import ModelRequest
from checkmate.solvers.problem import SolveOptions

FORMAT = "checkmate-fidelity"
SMOKE_MODELS = ("two_io", "gru")


@dataclass(frozen=True)
class Measured:
    """Name a model to measure as the table shows it."""

    name: str
    request: ModelRequest


def subjects(
    names: Sequence[str], *, batch_size: int | None = None, allow_code: bool = False
) -> list[Measured]:
    """Return the models to measure: the whole zoo if ``names`` is empty.

    A name is one of the zoo, or anything else that a model can be given as.

    Raises:
        UsageError: a model outside the zoo is named without a batch size, or Keras is not set up for
            TensorFlow.
    """
    if require_backend() == JAX:
        raise UsageError(
            "this benchmark measures TensorFlow's steps, and Keras is set up for JAX here",
            hint="set KERAS_BACKEND=tensorflow",
        )
    found = []
    for name in names or [model.name for model in ZOO]:
        known = find_zoo_model(name)
        if known is None and batch_size is None:
            raise UsageError(
                f"the zoo has no model {name!r}", hint="-b N measures any other model, at batch size N"
            )
        spec = name if known is None else known.spec
        size = batch_size or (known.batch_size if known is not None else 1)
        found.append(Measured(name, ModelRequest(spec, batch_size=size, allow_code=allow_code)))
    return found


def run(
    wanted: Sequence[Measured],
    shares: Sequence[float],
    options: SolveOptions,
    *,
    done: Iterable[Row] = (),
    save: Callable[[list[Row]], None] = lambda rows: None,
    told: Callable[[Row], None] = lambda row: None,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> list[Row]:
    """Measure each model at each share; return a row for each.

    ``save`` gets all rows so far after each model, ``told`` gets each finished row. Models whose rows for all
    of ``shares`` are in ``done`` are not measured again.

    Raises:
        CancelledError: the user cancelled; what was saved stays.
    """
    rows = list(done)
    for number, subject in enumerate(wanted):
        stop_if(cancelled)
        missing = [share for share in shares if not _has(rows, subject, share)]
        if not missing:
            continue
        report(Progress("fidelity", number, len(wanted), subject.name))
        measured = planning.fidelity(
            subject.request, missing, options=options, report=report, cancelled=cancelled
        )
        for row in measured:
            rows.append({"model": subject.name, "batch_size": subject.request.batch_size, **row})
            told(rows[-1])
        save(rows)
    return rows


def _has(rows: Iterable[Row], subject: Measured, share: float) -> bool:
    key = (subject.name, subject.request.batch_size, share)
    return any((row["model"], row["batch_size"], row["budget"]) == key for row in rows)


def facts(rows: Sequence[Row], machine: Machine, options: SolveOptions) -> dict[str, Any]:
    """Return all that was measured as one JSON object."""
    return file_of_rows(FORMAT, machine, options, rows, summary(rows))


def save_to(path: Path, machine: Machine, options: SolveOptions) -> Save:
    """Return a function that writes the whole file from all rows."""
    return saving(path, lambda rows: facts(rows, machine, options))


def read_rows(path: Path) -> list[Row]:
    """Return the rows of an earlier run; none where there is no file.

    Raises:
        FormatError: the file holds something else.
    """
    return saved.read_rows(path, FORMAT, "a fidelity measurement")


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Return medians and worst cases of the prediction's errors.

    Errors are |predicted / measured − 1|, and the difference of the overheads, over the rows that have
    both.
    """
    return {
        "rows": len(rows),
        "within_budget": sum(row["status"] == "fits" for row in rows),
        "over_budget": sum(row["status"] == "over" for row in rows),
        "failed": sum(row["status"] == "failed" for row in rows),
        "without_schedule": sum(row["status"] not in ("fits", "over", "failed") for row in rows),
        "requested": _errors(requested_error(row) for row in rows),
        "allocated": _errors(allocated_error(row) for row in rows),
        "seconds": _errors(seconds_error(row) for row in rows),
        "overhead_points": _errors(overhead_error(row) for row in rows),
        "gradients_equal": sum(bool(row.get("gradients", {}).get("equal")) for row in rows),
        "gradients_compared": sum("gradients" in row for row in rows),
    }


def requested_error(row: Mapping[str, Any]) -> float | None:
    """Return predicted over traced requested bytes, less 1.

    Only the step's own bytes count, without parameters and the like.
    """
    peaks = row.get("peak_bytes")
    if not peaks:
        return None
    return _relative(
        peaks["predicted_requested"] - peaks["fixed"], peaks["measured_requested"] - peaks["fixed"]
    )


def allocated_error(row: Mapping[str, Any]) -> float | None:
    """Return predicted over measured peak on the meter, less 1. The meter is the allocator's."""
    peaks = row.get("peak_bytes")
    return _relative(peaks["predicted"], peaks["measured"]) if peaks else None


def seconds_error(row: Mapping[str, Any]) -> float | None:
    """Return predicted over measured seconds of the step, less 1."""
    seconds = row.get("seconds", {})
    return _relative(seconds["predicted"], seconds["measured"]) if "measured" in seconds else None


def overhead_error(row: Mapping[str, Any]) -> float | None:
    """Return predicted less measured overhead, a fraction.

    The overhead is over the emitted step without recomputation.
    """
    overhead = row.get("overhead", {})
    return overhead["predicted"] - overhead["measured"] if "measured" in overhead else None


def _relative(predicted: float, measured: float) -> float | None:
    return predicted / measured - 1 if measured else None


def _errors(found: Iterable[float | None]) -> dict[str, float | int | None]:
    sizes = [abs(each) for each in found if each is not None]
    return {
        "count": len(sizes),
        "median": statistics.median(sizes) if sizes else None,
        "worst": max(sizes, default=None),
    }
