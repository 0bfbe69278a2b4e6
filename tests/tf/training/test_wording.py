"""Test what is said of a budget that was missed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from checkmate.graphs.generate import training_chain
from checkmate.ir.schedule import Schedule
from checkmate.tf.training.measure import StepMeasurement
from checkmate.tf.training.plans.trials import TriedStep
from checkmate.tf.training.wording import why_missed

MIB = 2**20


@pytest.mark.parametrize(("own", "proved"), [(60, False), (70, True)])
def test_a_bound_above_what_was_measured_proves_nothing(own: int, proved: bool) -> None:
    graph = training_chain(4)
    tried = TriedStep(Schedule.plain(graph), StepMeasurement((own + 5) * MIB, 5 * MIB), 5 * MIB)
    bound: Any = SimpleNamespace(bound_bytes=69 * MIB)
    said = why_missed(graph, tried, allowed=40 * MIB, held=5 * MIB, proof=bound)
    assert ("it is proved that the ops of any schedule request at least 69.0 MiB" in said) == proved
    assert ("more than was measured, so nothing is proved" in said) == (not proved)
