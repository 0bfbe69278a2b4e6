"""Run the tests of ``rematerialize`` in a process of their own.

Their budgets of a few MiB include whatever else the process holds.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs import run_python

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
    ],
)
def test_one_line_in_user_code(subject: str) -> None:
    # With a meter nothing is measured in other processes, and each tensor counts, also the small ones.
    environment = {} if subject == "rematerialize_fit" else {"TF_CPU_ALLOCATOR_USE_BFC": "true"}
    if subject == "rematerialize_at_once":  # it compares bits
        environment |= {"TF_ENABLE_ONEDNN_OPTS": "0"}
    if subject.endswith(("_kept", "_watched", "_at_once", "_phases")):
        # Kernels of several threads take scratch as those come to run, so on a busy machine a peak is another
        # in each run. These tests are about what follows from a peak.
        environment |= {"TF_NUM_INTRAOP_THREADS": "1"}
    alone = ("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", "")
    ran = run_python(*alone, HERE / f"{subject}.py", **environment)
    assert " passed" in ran.stdout.splitlines()[-1]
