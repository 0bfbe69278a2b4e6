"""Run a step once to learn the tensor sizes and the loops' iterations that tracing cannot know."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.memory_check import first_line_of
from checkmate.backends.tf.restoring import restored
from checkmate.backends.tf.trace.calls import without_calls
from checkmate.backends.tf.trace.loops import counted_trips, is_loop, step_of, value_of
from checkmate.backends.tf.trace.sizes import tensor_bytes
from checkmate.backends.tf.trace.trace import TracedStep, needed_ops
from checkmate.backends.tf.trace.walks import needed
from checkmate.errors import DynamicShapeError, ProfileError
from checkmate.ir import Phase


def with_seen_sizes(traced: TracedStep, batch: Callable[[], Sequence[tf.Tensor]]) -> TracedStep:
    """Return ``traced`` with a note on each op whose output's size nothing tells, and on each loop of which
    nothing tells how often it runs: how many elements or iterations it has in one run on ``batch``. A
    ProfileError: it could not be run."""
    traced = without_calls(traced)  # their outputs may have open shapes where their bodies tell more
    unknown, loops = list(_unsized(traced)), list(_uncounted(traced))
    if not unknown and not loops:
        return traced
    function = tf.function(_counting(traced, unknown, [loop.outputs[0] for loop in loops]), autograph=False)
    try:
        with restored(traced.variables):
            counts = [int(count) for count in function.get_concrete_function(*traced.loaded.specs)(*batch())]
    except tf.errors.OpError as error:
        raise ProfileError(
            f"the step could not be run to learn its sizes: {first_line_of(error)}",
            hint="use a smaller batch",
        ) from error
    for tensor, count in zip(unknown, counts, strict=False):
        private.note_elements(tensor, count)
    for loop, count in zip(loops, counts[len(unknown) :], strict=True):
        private.note_trips(loop, count)
    return dataclasses.replace(traced, sizes_seen=True)


def _planned(traced: TracedStep) -> Iterator[tf.Operation]:
    wanted = needed_ops(traced)
    for op, phase in zip(traced.ops, traced.phases, strict=True):
        if op.name in wanted and phase is not Phase.UPDATE:
            yield op


def _uncounted(traced: TracedStep) -> Iterator[tf.Operation]:
    """Yield loops whose number of iterations is told only by their first output, a counter."""
    for op in _planned(traced):
        if not is_loop(op) or counted_trips(op) is not None:
            continue
        if step_of(op, 0) == 1 and value_of(op.inputs[0]) == 0:
            yield op


def _unsized(traced: TracedStep) -> Iterator[tf.Tensor]:
    for op in _planned(traced):
        for tensor in op.outputs:
            try:
                tensor_bytes(tensor)
            except DynamicShapeError:
                yield tensor


def _counting(
    traced: TracedStep, sized: Sequence[tf.Tensor], counters: Sequence[tf.Tensor]
) -> Callable[..., list[tf.Tensor]]:
    """Return a function of the step's arguments that computes only the sizes of ``sized`` and the values of
    ``counters``."""

    def counting(*given: tf.Tensor) -> list[tf.Tensor]:
        target = tf.compat.v1.get_default_graph()
        private.copy_functions(traced.graph, target)
        made: dict[str, tf.Tensor] = {}
        inputs = traced.function.inputs
        private.stand_for(inputs, private.given_inputs(traced.function, target, given), made)
        computed = needed([*sized, *counters], (), lambda tensor: tensor)
        for op in traced.ops:
            if op.name in computed and op.type != "Placeholder":
                private.copy_op(target, op, made, [], op.name)
        return [
            *(tf.size(made[tensor.name], tf.int64) for tensor in sized),
            *(tf.cast(made[tensor.name], tf.int64) for tensor in counters),
        ]

    return counting
