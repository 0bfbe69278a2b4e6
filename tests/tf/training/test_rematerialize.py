"""Run tests of ``rematerialize`` in processes of their own, whose memory is small beside a budget's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.programs import run_python
from tests.quick_start import QUICK

HERE = Path(__file__).parents[1]


@pytest.mark.heavy
@pytest.mark.parametrize(
    "subject",
    [
        "rematerialize_fit",
        "rematerialize_models",
        "rematerialize_budget",
        "rematerialize_kept",
        "rematerialize_watched",
        "own_steps_told",
        "rematerialize_engines",
        "rematerialize_at_once",
        "rematerialize_lives",
        "rematerialize_phases",
        "rematerialize_unplanned",
        "rematerialize_sizes",
    ],
)
def test_one_line_in_user_code(subject: str) -> None:
    # With a meter nothing is measured in other processes, and each tensor counts, also the small ones.
    environment = {} if subject == "rematerialize_fit" else {"TF_CPU_ALLOCATOR_USE_BFC": "true"}
    if subject.endswith(("_at_once", "_sizes")):  # it compares bits
        environment |= {"TF_ENABLE_ONEDNN_OPTS": "0"}
    if subject.endswith(("_kept", "_watched", "_at_once", "_phases", "_sizes")):
        # Kernels of several threads take scratch as those come to run, so on a busy machine a peak is another
        # in each run. These tests are about what follows from a peak.
        environment |= {"TF_NUM_INTRAOP_THREADS": "1"}
    alone = ("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", "")
    ran = run_python(*alone, HERE / f"{subject}.py", **environment)
    assert " passed" in ran.stdout.splitlines()[-1]


@pytest.mark.heavy
def test_plans_are_measured_in_a_fresh_process_where_this_one_has_no_meter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TF_CPU_ALLOCATOR_USE_BFC", raising=False)
    ran = run_python(HERE / "unmetered.py", **QUICK, TF_ENABLE_ONEDNN_OPTS="0")
    found, said = json.loads(ran.stdout.splitlines()[-1]), ran.stdout + ran.stderr
    assert not found["metered"] and found["loss"] > 0
    assert 0 < found["peak"] <= found["allowed"] and found["recomputations"] > 0
    assert "the peak is measured in a fresh process" in said
    how = "set TF_CPU_ALLOCATOR_USE_BFC=true before TensorFlow is imported"
    assert f"this process has no memory meter: {how}" in said


@pytest.mark.heavy
def test_wrong_calls_get_one_clear_sentence_at_once() -> None:
    made = run_python("-m", "tests.tf.wrong_calls", **QUICK)
    assert made.stdout == Path(__file__).with_name("wrong_calls.md").read_text(encoding="utf-8")
