"""Write ``checkmate-report`` version 1: a measured run's results."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from checkmate.formats.files import write_json
from checkmate.ir.report import VerificationReport


def report_to_json(report: VerificationReport) -> dict[str, Any]:
    """Return the file's content; null stands for what is not finite."""
    found: dict[str, Any] = _finite(_content(report))
    return found


def _finite(value: Any) -> Any:
    """Return ``value`` with None where a number is infinite or none."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _content(report: VerificationReport) -> dict[str, Any]:
    return {
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


def write_report(path: Path, report: VerificationReport) -> None:
    """Write ``report``.

    Raises:
        FormatError: the file cannot be written.
    """
    write_json(path, report_to_json(report))
