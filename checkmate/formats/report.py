"""Write ``checkmate-report`` version 1: a measured run's results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from checkmate.formats.files import write_json
from checkmate.ir.report import VerificationReport


def report_to_json(report: VerificationReport) -> dict[str, Any]:
    """Return the file's content."""
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
