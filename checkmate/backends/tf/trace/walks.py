"""Walk over the ops of a graph: what stands behind a tensor, what is needed, and in which order ops run."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from checkmate.backends.tf import private


def source(tensor: tf.Tensor) -> tf.Tensor:
    """Return ``tensor``, or the tensor behind identities without control inputs. Keras passes all gradients
    through one ``IdentityN``: taken literally, it would hold each until the last one is there."""
    while tensor.op.type in ("Identity", "IdentityN") and not tensor.op.control_inputs:
        tensor = tensor.op.inputs[tensor.value_index]
    return tensor


def without_identities(tensor: tf.Tensor) -> tf.Tensor:
    """Return ``tensor``, or the tensor behind identities of one tensor, whatever they wait for."""
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor


def constant(tensor: tf.Tensor) -> int | None:
    """Return the value of an integer (of a vector the first) that is known; else None."""
    if tensor.dtype not in (tf.int32, tf.int64) or tensor.shape.num_elements() == 0:
        return None
    value = tf.get_static_value(tensor)
    return int(np.ravel(value)[0]) if value is not None and np.size(value) else None


def needed(
    results: Iterable[tf.Tensor],
    ops: Iterable[tf.Operation],
    behind: Callable[[tf.Tensor], tf.Tensor] = source,
) -> set[str]:
    """Return the names of ``ops`` that a result or effect needs. ``behind``: what an input really reads."""
    stack = [tensor.op for tensor in results]
    stack += [op for op in ops if private.is_stateful(op) and op.type != "ReadVariableOp"]
    found: set[str] = set()
    while stack:
        op = stack.pop()
        if op.name not in found:
            found.add(op.name)
            stack += [*(behind(tensor).op for tensor in op.inputs), *op.control_inputs]
    return found


def sources_of(ops: Sequence[tf.Operation]) -> list[set[int]]:
    """Return per op the indices of those of ``ops`` that it reads or waits for."""
    index = {op.name: i for i, op in enumerate(ops)}
    return [
        {index[o.name] for o in (*(t.op for t in op.inputs), *op.control_inputs) if o.name in index}
        for op in ops
    ]


def in_order(before: Sequence[Collection[int]], key: Callable[[int, list[int]], Any]) -> list[int]:
    """Return the items in an order in which each follows those in ``before``; items in a cycle are left out.
    Of the items that are ready, the one with the least ``key`` (of the item, and the order so far) comes
    first."""
    after: list[list[int]] = [[] for _ in before]
    for item, sources in enumerate(before):
        for each in sources:
            after[each].append(item)
    waiting = [len(sources) for sources in before]
    order: list[int] = []
    ready = [(key(item, order), item) for item, count in enumerate(waiting) if count == 0]
    heapq.heapify(ready)
    while ready:
        order.append(heapq.heappop(ready)[1])
        for follower in after[order[-1]]:
            waiting[follower] -= 1
            if waiting[follower] == 0:
                heapq.heappush(ready, (key(follower, order), follower))
    return order


def execution_order(ops: Sequence[tf.Operation]) -> list[int]:
    """Return the indices of ``ops`` in a valid order, by creation if possible; a loop's gradient gives it
    later inputs."""
    return in_order(sources_of(ops), lambda item, _: item)
