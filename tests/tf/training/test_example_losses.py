"""Test that a budget does not change what the examples compute.

Kernels and fusions are the same in both runs, so what is left of a difference would be the schedule's.
"""

from __future__ import annotations

import pytest

from tests.benchmarks.training import PROGRAMS, exact_row

# A sum of three terms or more begins with the one whose memory can be reused.
ROUNDED = 1e-6
# One of each kind: its own ``train_step``, a loop with two tapes, no Keras. Half a minute each.
FEW = ("vae.py", "dcgan.py", "plain_tensorflow.py")


@pytest.mark.parametrize(
    "program",
    [pytest.param(name, marks=pytest.mark.heavy if name in FEW else pytest.mark.long) for name in PROGRAMS],
)
def test_an_example_computes_the_same_with_the_same_kernels(program: str) -> None:
    found = exact_row(program, small=True, compiled=True)
    assert "problem" not in found, found["problem"]
    assert found["steps"] >= 20
    assert found["differing_steps"] == 0 or found["difference"] <= ROUNDED, found
