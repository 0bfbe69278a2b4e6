"""Trace a step as one of several replicas sees it.

Replicas exchange tensors: gradients are summed before an update, some variables take a mean. In the trace
each exchange is an op that hands its input on, and a trial runs it so. In training every replica emits the
same schedule, and exchanges tensors where such an op stands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.errors import TraceError

_HOW = ("sum", "mean", "first")
_NAME = "exchanged_by_"
_TYPE = "Snapshot"  # what it returns is a tensor of its own, as the sum over replicas is


def number_of_replicas(strategy: Any) -> int:
    return 1 if strategy is None else int(strategy.num_replicas_in_sync)


@contextmanager
def as_one_replica(strategy: Any, name: str) -> Iterator[None]:
    """Let what is traced be the step ``name`` on the first replica of several."""
    alone = number_of_replicas(strategy) == 1
    with nullcontext() if alone else private.first_replica(_TracedReplica(strategy, name)):
        yield


class _TracedReplica(private.FirstReplica):
    def __init__(self, strategy: Any, name: str) -> None:
        super().__init__(strategy)
        self._step = name

    def exchanged(self, how: str, value: Any) -> Any:
        if isinstance(value, tf.IndexedSlices):
            raise TraceError(
                f"the training step of {self._step!r} sums an embedding's sparse gradient over replicas, "
                "whose size is not known",
                hint="make it dense with tf.convert_to_tensor(gradient) before it is applied, "
                "or train on one device",
            )
        if how not in _HOW:
            raise TraceError(
                f"the training step of {self._step!r} calls {how} over its replicas, "
                "which cannot be scheduled",
                hint="leave merge_call out of the step, or train on one device",
            )
        return tf.raw_ops.Snapshot(input=tf.convert_to_tensor(value), name=f"{_NAME}{how}")


def require_one_process(strategy: Any, name: str) -> None:
    if number_of_replicas(strategy) > 1 and not isinstance(strategy, tf.distribute.MirroredStrategy):
        raise TraceError(
            f"the training step of {name!r} runs on {number_of_replicas(strategy)} replicas by "
            f"{type(strategy).__name__}, and each process would exchange gradients in an order of its own",
            hint="use tf.distribute.MirroredStrategy, or leave train_step to Keras",
        )


def exchange_of(op: tf.Operation) -> str:
    """Return how replicas exchange the input of ``op``; empty if they do not."""
    leaf = op.name.rsplit("/", 1)[-1]
    if op.type != _TYPE or not leaf.startswith(_NAME):
        return ""
    return str(leaf.removeprefix(_NAME).split("_")[0])


def this_replica() -> int | None:
    """Return which of several replicas is traced now; None outside of them."""
    context = tf.distribute.get_replica_context() if tf.distribute.has_strategy() else None
    if context is None or context.num_replicas_in_sync == 1:
        return None
    return private.number_of(context)


def exchange(how: str, tensor: tf.Tensor) -> tf.Tensor:
    context = tf.distribute.get_replica_context()
    if how == "first":
        return context.merge_call(_first, args=(tensor,))
    return context.all_reduce(tf.distribute.ReduceOp[how.upper()], tensor)


def _first(strategy: Any, value: Any) -> Any:
    local = strategy.experimental_local_results(value)
    return strategy.extended.broadcast_to(local[0], destinations=value)


def same_on_all(value: Any) -> bool:
    """Return whether all replicas, each of which asks, have one object here."""
    found: bool = tf.distribute.get_replica_context().merge_call(_is_one, args=(_Held(value),))
    return found


class _Held:
    def __init__(self, value: Any) -> None:
        self.value = value


def _is_one(strategy: Any, held: Any) -> bool:
    values = [each.value for each in strategy.experimental_local_results(held)]
    return all(value is values[0] for value in values)
