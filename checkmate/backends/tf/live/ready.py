"""Run a step by a schedule, measured or in training, as one function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.devices import emitted
from checkmate.backends.tf.emit.ordered import ordered_step
from checkmate.backends.tf.live.trace import LiveStep
from checkmate.ir.schedule import Schedule


class ReadyStep:
    """Hold a step by a schedule, which is compiled when it first runs."""

    def __init__(self, step: LiveStep, schedule: Schedule) -> None:
        self.step, self.schedule = step, schedule
        self._function: Callable[..., Any] | None = None

    def compiled(self, arguments: Sequence[tf.Tensor]) -> Callable[..., Any]:
        """Return the step as a function of ``arguments``.

        It returns the loss and all else that leaves the step.
        """
        if self._function is None:
            emit = ordered_step(self.step.folded, self.schedule)

            def body(*given: tf.Tensor) -> tuple[tf.Tensor, tuple[tf.Tensor, ...]]:
                outputs = emit(*given)
                return outputs.loss, outputs.predictions

            function = tf.function(body, autograph=False).get_concrete_function(*arguments)
            self._function = emitted(function, self.step.graph.device_kind)
        return self._function

    def run(self, tensors: Sequence[tf.Tensor]) -> tuple[tf.Tensor, Sequence[tf.Tensor]]:
        """Run the step on a batch; return the loss and what else leaves it."""
        arguments = self.step.arguments(tensors)
        loss, flat = self.compiled(arguments)(*arguments)
        return loss, flat

    @property
    def begins_anew(self) -> bool:
        """Return whether a run leaves nothing behind but in variables.

        Then the function that was measured trains as a new one would, once the variables are put back. A
        random op without a variable goes on in its own sequence.
        """
        return not any(map(_remembers, self.step.folded.structure.ops))


def _remembers(op: tf.Operation) -> bool:
    """Return whether ``op`` may keep something of a run by itself."""
    if not private.is_stateful(op) or op.type == "Placeholder":
        return False
    calls = any(value.WhichOneof("value") == "func" for value in op.node_def.attr.values())
    return calls or not any(tensor.dtype == tf.resource for tensor in op.inputs)
