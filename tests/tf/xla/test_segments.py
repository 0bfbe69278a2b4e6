"""Test that rows added to late zeros are those of a sum by segments."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from checkmate.backends.tf.live.trace import live_step
from checkmate.backends.tf.models.batch import flatten
from checkmate.backends.tf.xla.cpu_help import Ties, added_late, can_add_late
from checkmate.backends.tf.xla.tied import tied_step
from checkmate.ir.schedule import Schedule
from tests.tf.xla.networks import NETWORKS


@pytest.mark.heavy
@settings(max_examples=20, deadline=None, phases=[Phase.generate], database=None)
@given(st.data())
def test_late_sums_have_the_bits_of_sums_by_segments(data: Any) -> None:
    shape = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=2))
    width = data.draw(st.lists(st.integers(1, 5), max_size=2))
    words = data.draw(st.integers(1, 7))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    rows = tf.constant(random.integers(-1, words, shape), tf.int32)  # -1 is left out
    slopes = tf.constant(
        random.normal(size=[*shape, *width]), data.draw(st.sampled_from([tf.float32, tf.float64]))
    )

    def both(slopes: tf.Tensor, rows: tf.Tensor) -> list[tf.Tensor]:
        usual = tf.math.unsorted_segment_sum(slopes, rows, words)
        assert can_add_late(usual.op)
        ties = Ties(tf.compat.v1.get_default_graph())
        return [usual, added_late(ties, usual.shape, slopes, rows)]

    usual, late = tf.function(both, autograph=False, jit_compile=True)(slopes, rows)
    np.testing.assert_array_equal(usual.numpy(), late.numpy())


@pytest.mark.parametrize("compiled", [True, False])
def test_zeros_of_an_embedding_are_made_of_slopes_where_it_is_compiled(compiled: bool) -> None:
    model, batch = NETWORKS["transformer"](optimizer=keras.optimizers.SGD(0.01, momentum=0.9))
    step = live_step(model, flatten(batch)[0])
    emitted = tied_step(step.folded, Schedule.plain(step.graph), compiled=compiled)
    body = tf.function(lambda *given: emitted(*given).loss, autograph=False)
    made = body.get_concrete_function(*step.layout.specs).graph.get_operations()
    count = [op.type for op in made].count
    assert (count("UnsortedSegmentSum"), count("TensorScatterAdd")) == ((0, 1) if compiled else (1, 0))
