"""Test ``bench fidelity``: its models, resuming, errors and table.

What is measured is tested in ``tests/tf``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from checkmate import pipeline
from checkmate.bench.common.machine import this_machine
from checkmate.bench.fidelity import rows as fidelity
from checkmate.bench.fidelity import table as fidelity_table
from checkmate.catalog.zoo import ZOO
from checkmate.errors import FormatError, UsageError
from checkmate.solvers.problem import SolveOptions

MIB = 2**20


def row(model: str = "gpt", budget: float = 0.5, **changes: Any) -> dict[str, Any]:
    """Return a finished row.

    It is 2 % over on the meter, 1 % under in requested bytes, 10 % slow, 3 points of overhead short.
    """
    return {
        "model": model,
        "batch_size": 8,
        "budget": budget,
        "budget_bytes": 100 * MIB,
        "plain_peak_bytes": 200 * MIB,
        "status": "fits",
        "problem": "",
        "peak_bytes": {
            "predicted": 102 * MIB,
            "measured": 100 * MIB,
            "predicted_requested": 109 * MIB,
            "measured_requested": 110 * MIB,
            "fixed": 10 * MIB,
        },
        "overhead": {"predicted": 0.05, "measured": 0.08},
        "seconds": {"predicted": 0.9, "measured": 1.0},
        "gradients": {"equal": True, "bitwise": True, "state_bitwise": True, "worst": {}},
        **changes,
    }


FAILED = {"model": "vit", "batch_size": 8, "budget": 0.5, "status": "failed", "problem": "TraceError: no"}


def test_errors_are_predicted_over_measured() -> None:
    assert fidelity.allocated_error(row()) == pytest.approx(0.02)
    assert fidelity.requested_error(row()) == pytest.approx(-0.01)
    assert fidelity.seconds_error(row()) == pytest.approx(-0.1)
    assert fidelity.overhead_error(row()) == pytest.approx(-0.03)
    for error in (
        fidelity.allocated_error, fidelity.requested_error, fidelity.seconds_error, fidelity.overhead_error
    ):  # fmt: skip
        assert error(FAILED) is None


def test_summary_counts_what_failed_and_leaves_it_out_of_the_medians() -> None:
    over = row(
        status="over", problem="measured peak over the budget", gradients={"equal": False, "bitwise": False}
    )
    none = {**FAILED, "status": "infeasible", "problem": "below what an op needs by itself"}
    found = fidelity.summary([row(), over, FAILED, none])
    counts = ("rows", "within_budget", "over_budget", "failed", "without_schedule", "gradients_equal")
    assert [found[name] for name in (*counts, "gradients_compared")] == [4, 1, 1, 1, 1, 1, 2]
    assert found["allocated"] == {"count": 2, "median": pytest.approx(0.02), "worst": pytest.approx(0.02)}
    assert fidelity.summary([FAILED])["seconds"] == {"count": 0, "median": None, "worst": None}


def test_table_shows_every_row_and_every_problem() -> None:
    text = fidelity_table.text([row(), FAILED], this_machine())
    assert "gpt b8" in text and "bitwise" in text and "vit at 50 %: TraceError: no" in text
    assert "peak on the meter, predicted against measured: median 2.00 %" in text
    assert (
        "1 of 2 rows within the budget, 0 over it, 0 without a schedule, 1 failed; gradients equal in 1 "
        "of 1 compared" in text
    )
    differing = row(gradients={"equal": False, "bitwise": False})
    assert "DIFFER" in fidelity_table.text([differing], this_machine())
    head, rule, *body = fidelity_table.markdown([row(), FAILED]).splitlines()
    assert len(body) == 2 and {line.count("|") for line in (head, rule, *body)} == {head.count("|")}


def test_the_zoo_by_default_and_any_model_with_a_batch_size() -> None:
    assert [each.name for each in fidelity.subjects([])] == [model.name for model in ZOO]
    (one,) = fidelity.subjects(["gru"])
    assert (one.request.model, one.request.batch_size) == ("zoo.gru", 32)
    (own,) = fidelity.subjects(["mine.py:make"], batch_size=2, allow_code=True)
    assert (own.request.model, own.request.batch_size, own.request.allow_code) == ("mine.py:make", 2, True)
    with pytest.raises(UsageError, match="the zoo has no model 'unet'"):
        fidelity.subjects(["unet"])


def test_only_what_is_missing_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, list[float]]] = []

    def measured(request: Any, shares: Any, **_: Any) -> list[dict[str, Any]]:
        asked.append((request.model, list(shares)))
        return [
            {key: value for key, value in row(budget=share).items() if key != "model"} for share in shares
        ]

    monkeypatch.setattr(pipeline, "fidelity", measured)
    path, options = tmp_path / "f.json", SolveOptions()
    save = fidelity.save_to(path, this_machine(), options)
    wanted = fidelity.subjects(["gpt", "vit"])
    fidelity.run(wanted[:1], [0.5], options, save=save)
    rows = fidelity.run(wanted, [0.75, 0.5], options, done=fidelity.read_rows(path), save=save)
    assert asked == [("zoo.gpt", [0.5]), ("zoo.gpt", [0.75]), ("zoo.vit", [0.75, 0.5])]
    assert fidelity.read_rows(path) == rows and len(rows) == 4
    assert json.loads(path.read_text())["summary"]["rows"] == 4


@pytest.mark.parametrize("content", ["[]", "{", '{"format": "checkmate-bench", "rows": []}'])
def test_a_file_of_another_kind_is_not_continued(content: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(FormatError, match="is not a fidelity measurement"):
        fidelity.read_rows(path)
    assert fidelity.read_rows(tmp_path / "none.json") == []
