"""Test ``bench fidelity``: its models, resuming, errors and table.

What is measured is tested in ``tests/tf``.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

import checkmate
from checkmate import planning
from checkmate.bench.common.machine import this_machine
from checkmate.bench.fidelity import rows as fidelity
from checkmate.bench.fidelity import table as fidelity_table
from checkmate.catalog.zoo import ZOO
from checkmate.errors import FormatError, UsageError
from checkmate.ir import Graph
from checkmate.machine.processor import processor_name
from checkmate.planning.report.fidelity_rows import made_with
from checkmate.solvers.problem import SolveOptions

if TYPE_CHECKING:
    from checkmate.backends.tf.measure.fresh_step import FreshMeasurement

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


MADE_WITH = {
    "checkmate": "0.1.0",
    "tensorflow": "2.21.0",
    "keras": "3.15.0",
    "kernels": "eigen",
    "processor": "a processor",
    "device": "a processor",
    "load": 0.04,
    "cores": 2,
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


def test_notes_say_what_the_rows_were_made_with() -> None:
    rows = [row("gpt", made_with=MADE_WITH), row("vit", made_with={**MADE_WITH, "load": 0.52}), FAILED]
    assert fidelity_table.notes(rows)[-1] == (
        "measured with TensorFlow 2.21.0, Keras 3.15.0, checkmate 0.1.0, Eigen's kernels on a processor; "
        "during a plain step other programs took at most 0.5 of 2 cores"
    )


def test_rows_made_with_other_versions_have_a_line_of_their_own() -> None:
    newer = {**MADE_WITH, "tensorflow": "2.22.0", "keras": None, "kernels": "cuda", "device": "a GPU"}
    rows = [row("gpt", made_with=MADE_WITH), row("vit", made_with=newer), row("vit", 0.75, made_with=newer)]
    first, second = fidelity_table.notes(rows)[-2:]
    assert first.startswith("gpt: measured with TensorFlow 2.21.0, Keras 3.15.0")
    assert second.startswith(
        "vit: measured with TensorFlow 2.22.0, checkmate 0.1.0, CUDA's kernels on a GPU beside a processor;"
    )


def test_rows_of_older_files_say_nothing_of_versions() -> None:
    assert not any("measured with" in line for line in fidelity_table.notes([row(), FAILED]))


def test_one_attempt_is_no_plural_in_older_files_either() -> None:
    over = row(status="over", problem="over by 1 MiB after 1 attempts: the export is refused")
    assert "gpt at 50 %: over by 1 MiB after 1 attempt: the export is refused" in fidelity_table.notes([over])
    assert fidelity_table.line(over).endswith("after 1 attempt: the export is refused")
    eleven = row(problem="over by 1 MiB after 11 attempts: the export is refused")
    assert "after 11 attempts" in fidelity_table.line(eleven)


def test_a_row_names_versions_kernels_machine_and_load(chain: Graph) -> None:
    graph = replace(chain, metadata={"tensorflow": "2.21.0"})
    plain = SimpleNamespace(settings={"kernels": "eigen"}, device="a processor", load=0.04, cores=2)
    found = made_with(graph, cast("FreshMeasurement", plain))
    assert set(found) == set(MADE_WITH) and found["checkmate"] == checkmate.__version__
    assert {key: found[key] for key in ("tensorflow", "kernels", "device", "load", "cores")} == {
        key: MADE_WITH[key] for key in ("tensorflow", "kernels", "device", "load", "cores")
    }
    assert found["processor"] == processor_name()


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

    monkeypatch.setattr(planning, "fidelity", measured)
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
