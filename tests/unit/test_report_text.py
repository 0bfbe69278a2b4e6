"""Test what ``run``, ``export`` and ``verify`` print of what was compared."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from checkmate.cli.step_report import report_text
from checkmate.ir import VerificationReport

OWN = {"compared": "variables and results", "steps": 2, "bitwise": True, "equal": True, "batch_size": 8}


def report(gradients: dict[str, Any], loss: float | None = 0.5, error: float = 0.0) -> VerificationReport:
    worst = {
        "worst": {"name": "w", "relative_error": error},
        "worst_of_largest": {"name": "w", "error": error},
    }
    return VerificationReport(
        model="train.py:make_step",
        device="a CPU",
        batch_size=8,
        budget_bytes=2**20,
        gradients={"overall_relative_error": error, **worst, **gradients},
        loss={"plain": loss, "optimized": loss},
        peak_bytes={"predicted": 1, "measured": 1, "plain_measured": 1, "reloaded_measured": None},
        seconds={"predicted": 1.0, "measured": 1.0, "plain_predicted": 1.0, "plain_measured": 1.0},
        recomputations=1,
        steps=2,
    )


@pytest.mark.parametrize(
    ("gradients", "error", "words"),
    [
        (
            OWN,
            0.0,
            "results        what the step returns and its variables: bitwise equal to the plain step's after "
            "2 steps with the same kernels; with default kernels no difference",
        ),
        (
            {**OWN, "bitwise": False},
            0.001,
            "variables: equal after 2 steps with the same kernels; with default kernels 1.0e-03 apart "
            "overall, at most 1.0e-03 of the largest of them (w)",
        ),
        ({**OWN, "equal": False, "bitwise": False}, 0.1, "variables: DIFFERENT after 2 steps"),
        ({**OWN, "batch_size": 4}, 0.0, "after 2 steps (at batch 4) with the same kernels"),
        ({**OWN, "equal": None}, 0.0, "results        not compared"),
        (
            {"bitwise": True, "equal": True},
            0.0,
            "gradients      bitwise equal to the plain step's with the same kernels; with default kernels "
            "0.0e+00 apart overall, at most 0.0e+00 of the step's largest gradient (w)",
        ),
    ],
)
def test_what_was_compared_is_said(gradients: dict[str, Any], error: float, words: str) -> None:
    text = report_text(report(gradients, error=error), None)
    assert words in text
    assert ("gradient" in text) is (gradients.get("compared") is None)


def test_a_step_that_returns_no_number_has_no_line_for_its_loss() -> None:
    assert "loss           0.5 (plain 0.5)" in report_text(report(OWN), None)
    assert "loss" not in report_text(report(OWN, loss=None), None)


def test_the_last_line_starts_this_programs_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = Path(sys.executable).parent
    monkeypatch.chdir(folder.parent)
    monkeypatch.setenv("PATH", str(folder))
    assert report_text(report(OWN), Path("out")).endswith("wrote out: try  python out/train_example.py")
    monkeypatch.setenv("PATH", str(tmp_path))
    shown = f"{folder.name}/{Path(sys.executable).name}"
    assert report_text(report(OWN), Path("my out")).endswith(f"try  {shown} 'my out/train_example.py'")
