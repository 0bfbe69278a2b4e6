"""Test that what a variable is assigned is computed in its own memory."""

from __future__ import annotations

from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from checkmate.backends.tf.allocator.learn import learned_workspace
from checkmate.backends.tf.allocator.replay import allocations
from checkmate.backends.tf.emit.side_by_side import in_turn
from checkmate.backends.tf.measure.concrete import compiled_step
from checkmate.backends.tf.profiler import trace_run
from checkmate.backends.tf.restoring import restored
from checkmate.backends.tf.trace.coarsen import FoldedStep
from tests.tf.conftest import folded_model

MIB = 1 << 20
BATCH = 64
OPTIMIZERS: dict[str, tuple[Callable[[], keras.optimizers.Optimizer], int]] = {
    "momentum": (lambda: keras.optimizers.SGD(0.1, momentum=0.9), 1),
    "nesterov": (lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True), 1),
    "rmsprop": (lambda: keras.optimizers.RMSprop(1e-3), 1),
    "averaged": (lambda: keras.optimizers.Adam(1e-3, use_ema=True), 1),
    "adam": (lambda: keras.optimizers.Adam(1e-3), 0),
}


def folded_with(optimizer: keras.optimizers.Optimizer) -> FoldedStep:
    """Return the step of two kernels of 1 MiB."""
    keras.utils.set_random_seed(1)
    inputs = keras.Input((512,))
    x = layers.Dense(512, activation="tanh")(inputs)
    model = keras.Model(inputs, layers.Dense(512)(x))
    model.compile(optimizer, "mse")
    return folded_model(model, (BATCH, 512), (BATCH, 512))


def folded_convolutions() -> FoldedStep:
    """Return the step of a convolution with a kernel of 1 MiB, and momentum."""
    keras.utils.set_random_seed(1)
    inputs = keras.Input((8, 8, 64))
    x = layers.Conv2D(456, 3, padding="same", activation="relu")(inputs)
    x = layers.BatchNormalization()(layers.Conv2D(8, 1, use_bias=False)(x))
    model = keras.Model(inputs, layers.Dense(4)(layers.GlobalAveragePooling2D()(layers.ReLU()(x))))
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse")
    return folded_model(model, (8, 8, 8, 64), (8, 4))


def batch_of(seed: int) -> tuple[tf.Tensor, tf.Tensor]:
    made = np.random.default_rng(seed)
    return tuple(tf.constant(made.standard_normal((BATCH, 512), dtype=np.float32)) for _ in range(2))


def states_after(folded: FoldedStep, function: Callable[..., object], runs: int) -> list[np.ndarray]:
    """Return all variables after ``runs`` steps, and put them back."""
    with restored(folded.traced.variables):
        for run in range(runs):
            function(*batch_of(run))
        return [np.array(variable.numpy()) for variable in folded.traced.variables]


def addresses(folded: FoldedStep) -> list[int]:
    reads = (
        tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype)
        for variable in folded.traced.variables
        if variable.shape.num_elements() * 4 >= MIB
    )
    return [read._numpy_internal().__array_interface__["data"][0] for read in reads]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_step_is_the_plain_one_and_asks_for_no_new_buffers(name: str) -> None:
    make, slots = OPTIMIZERS[name]
    folded = folded_with(make())
    plain = list(range(folded.graph.n))
    assert len(folded.structure.in_variables) == 2 * slots  # one per kernel
    emitted = compiled_step(folded, plain)
    expected = states_after(folded, folded.traced.function, 4)
    assert all(map(np.array_equal, states_after(folded, emitted, 4), expected))
    emitted = compiled_step(in_turn(folded), plain)
    emitted(*batch_of(9))  # what was assigned from outside is let go of here
    lie = addresses(folded)
    trace = trace_run(lambda: emitted(*batch_of(0))[0].numpy(), device="cpu")
    assert learned_workspace(folded, [trace], plain) == {}
    asked = [event.requested_bytes for event in trace.memory if event.requested_bytes >= MIB]
    assert len(asked) == sum(each.bytes >= MIB for each in allocations(folded, plain))
    assert addresses(folded) == lie


def test_the_plain_step_hands_its_buffers_to_the_variables() -> None:
    folded = folded_with(keras.optimizers.SGD(0.1, momentum=0.9))
    steps = list(range(folded.graph.n))
    assert not any(each.assigned_to for each in allocations(folded, steps))
    assigned = [each for each in allocations(folded, steps, plain=True) if each.assigned_to]
    assert [each.bytes for each in assigned] == [MIB, MIB]


def test_a_slot_that_is_read_later_keeps_its_buffer() -> None:
    """Read what the slot was before, after its assignment."""

    class Watched(keras.optimizers.SGD):
        def update_step(self, gradient, variable, learning_rate):
            slot = self.momentums[self._get_variable_index(variable)]
            before = slot.value.read_value() if gradient.shape.rank == 2 else slot.value
            super().update_step(gradient, variable, learning_rate)
            self.assign_sub(variable, 1e-3 * tf.convert_to_tensor(before))

    folded = folded_with(Watched(0.1, momentum=0.9))
    assert folded.structure.in_variables == ()
    emitted = compiled_step(folded, list(range(folded.graph.n)))
    expected = states_after(folded, folded.traced.function, 3)
    assert all(map(np.array_equal, states_after(folded, emitted, 3), expected))


def test_no_kernel_is_taken_for_the_empty_variable() -> None:
    folded = folded_convolutions()
    assert len(folded.structure.in_variables) == 1
    emitted = compiled_step(folded, list(range(folded.graph.n)))
    batch = tf.ones((8, 8, 8, 64)), tf.ones((8, 4))
    plain = folded.traced.function(*batch).numpy()
    assert np.isfinite(plain) and np.isfinite(emitted(*batch)[0].numpy())
