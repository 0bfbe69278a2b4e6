"""Compute what a loop or a condition allocates inside, before it runs.

Its body is a function. The ops of that function are replayed once, in order: what they hold at most at once,
beside the loop's lists and the state that the loop returns, is scratch memory of the loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any

import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.devices import Kernels
from checkmate.backends.tf.trace.loops.tensor_lists import LoopList, loop_lists, trip_count
from checkmate.backends.tf.trace.loops.trips import is_loop, without_identities
from checkmate.backends.tf.trace.op_kinds import FIXED_TYPES, SHAPE_TYPES, is_view, takes_over_inputs
from checkmate.backends.tf.trace.scratch import scratch_bytes
from checkmate.backends.tf.trace.sizes import tensor_bytes
from checkmate.errors import DynamicShapeError

_HANDLES = (tf.resource, tf.variant)
_ADDS = frozenset({"TensorListPushBack", "TensorListSetItem"})


def is_branch(op: tf.Operation) -> bool:
    """Return whether ``op`` runs one of several functions."""
    return "then_branch" in op.node_def.attr or "branches" in op.node_def.attr


def bodies(op: tf.Operation) -> list[Any]:
    """Return the graph of a loop's body, or those of a condition's branches."""
    attributes = op.node_def.attr
    names = [attributes[name].func.name for name in ("body", "then_branch", "else_branch")]
    names += [function.name for function in attributes["branches"].list.func]
    found = (private.function_body(op.graph, name) for name in names if name)
    return [body for body in found if body is not None]


def invariants(op: tf.Operation) -> frozenset[int]:
    """Return the inputs that the loop ``op`` hands on as they are."""
    (body,) = (bodies(op) if is_loop(op) else []) or (None,)
    if body is None:
        return frozenset()
    return frozenset(
        number
        for number, (given, returned) in enumerate(zip(body.inputs, body.outputs, strict=True))
        if without_identities(returned) is given
    )


def held_bytes(op: tf.Operation, kernels: Kernels, lists: Mapping[int, LoopList], counted: Set[int]) -> int:
    """Return the bytes that ``op`` holds only while it runs.

    Its inputs, its outputs and its lists do not count. ``lists``: what ``loop_lists`` says of a loop.
    ``counted``: numbers of its inputs whose bytes count there: an element that is taken off such a list is
    freed.
    """
    if is_branch(op):
        outputs = sum(_size(tensor) for tensor in op.outputs)
        return max([0, *(_FunctionReplay(body, kernels).peak() - outputs for body in bodies(op))])
    (body,) = (bodies(op) if is_loop(op) else []) or (None,)
    if body is None:
        return scratch_bytes(op, kernels)
    fixed = invariants(op)
    state = {number for number, tensor in enumerate(op.inputs) if tensor.dtype not in _HANDLES} - fixed
    trips = max(1, trip_count(op))
    added = sum(found.bytes // trips for found in lists.values() if found.given is None)
    returned = sum(_size(op.outputs[number]) for number in state)
    return max(0, _FunctionReplay(body, kernels, state, counted).peak() - added - returned)


def inside_operations(op: tf.Operation) -> float | None:
    """Return the operations of a loop or a condition; None for other ops."""
    if is_loop(op):
        return trip_count(op) * sum(sum(map(operations, body.get_operations())) for body in bodies(op))
    if is_branch(op):
        return max((sum(map(operations, body.get_operations())) for body in bodies(op)), default=0.0)
    return None


def operations(op: tf.Operation) -> float:
    """Return TensorFlow's count of operations; else one per element."""
    inside = inside_operations(op)
    if inside is not None:
        return inside
    counted = private.flops(op.graph, op)
    if counted is not None:
        return counted
    return float(
        sum(tensor.shape.num_elements() or 0 for tensor in op.outputs if tensor.shape.is_fully_defined())
    )


class _FunctionReplay:
    """Replay the ops of a function once.

    ``state``: numbers of the inputs that are a loop's state. They count; other inputs are counted outside.
    ``counted``: numbers of the inputs that are lists, which free what is taken off them.
    """

    def __init__(
        self, body: Any, kernels: Kernels, state: Set[int] = frozenset(), counted: Set[int] = frozenset()
    ) -> None:
        self.kernels = kernels
        self.ops = _needed(body)
        self.lists = {body.inputs[number].name for number in counted}
        self.root: dict[str, str] = {}  # the buffer of each tensor, by name
        self.size: dict[str, int] = {}
        self.live = 0
        for number in state:
            name = body.inputs[number].name
            self.root[name], self.size[name] = name, _size(body.inputs[number])
            self.live += self.size[name]
        self.results = [tensor.name for tensor in body.outputs]

    def peak(self) -> int:
        """Return the most bytes that the ops hold at once."""
        for op in self.ops:
            self._follow(op)
        last = {name: number for number, op in enumerate(self.ops) for name in self._read(op)}
        kept = {self.root.get(name) for name in self.results}
        kept |= {self._of(op.inputs[-1]) for op in self.ops if op.type in _ADDS}
        peak = live = self.live
        for number, op in enumerate(self.ops):
            ending = [name for name in self._read(op) if last[name] == number and name not in kept]
            made = [t.name for t in op.outputs if self._allocates(t)]
            live += sum(self.size[name] for name in made)
            reused = 0
            if made and takes_over_inputs(op, self.kernels):
                main = self.size[made[0]]
                reused = main if any(self.size[name] == main for name in ending) else 0
            peak = max(peak, live - reused + self._scratch(op))
            live -= sum(self.size[name] for name in ending)
            live -= sum(self.size[name] for name in made if name not in last and name not in kept)
        return peak

    def _follow(self, op: tf.Operation) -> None:
        """Find the buffers of the outputs of ``op``."""
        if op.type in FIXED_TYPES or op.type in SHAPE_TYPES or op.type == "ReadVariableOp":
            return
        for number, tensor in enumerate(op.outputs):
            if is_view(op):
                found = self._of(op.inputs[number if op.type == "IdentityN" else 0])
                if found is not None:
                    self.root[tensor.name] = found
            elif tensor.dtype not in _HANDLES and op.type != "TensorListGetItem":
                if op.type == "TensorListPopBack" and not self._taken_off(tensor):
                    continue
                self.root[tensor.name], self.size[tensor.name] = tensor.name, _size(tensor)

    def _allocates(self, tensor: tf.Tensor) -> bool:
        own = self.root.get(tensor.name) == tensor.name
        return own and tensor.op.type not in FIXED_TYPES and not self._taken_off(tensor)

    def _taken_off(self, tensor: tf.Tensor) -> bool:
        """Return whether ``tensor`` was in a list that counts until now."""
        op = tensor.op
        return op.type == "TensorListPopBack" and without_identities(op.inputs[0]).name in self.lists

    def _of(self, tensor: tf.Tensor) -> str | None:
        return self.root.get(tensor.name)

    def _read(self, op: tf.Operation) -> Iterator[str]:
        if not is_view(op) and op.type not in SHAPE_TYPES:
            yield from dict.fromkeys(found for t in op.inputs if (found := self._of(t)) is not None)

    def _scratch(self, op: tf.Operation) -> int:
        lists = loop_lists(op.graph, op, frozenset()) if is_loop(op) else {}
        return held_bytes(op, self.kernels, lists, frozenset())


def _needed(body: Any) -> list[tf.Operation]:
    """Return the ops of a function that run, in the order in which they do.

    Nothing orders them but what they read. TensorFlow goes on with what an op has made possible.
    """
    stack = [tensor.op for tensor in body.outputs]
    stack += [op for op in body.get_operations() if private.is_stateful(op) and op.type != "ReadVariableOp"]
    found: set[str] = set()
    while stack:
        op = stack.pop()
        if op.name not in found:
            found.add(op.name)
            stack += [*(tensor.op for tensor in op.inputs), *op.control_inputs]
    ops = [op for op in body.get_operations() if op.name in found]
    after: dict[str, list[tf.Operation]] = {op.name: [] for op in ops}
    waiting: dict[str, int] = {}
    for op in ops:
        sources = {source.name for source in (*(tensor.op for tensor in op.inputs), *op.control_inputs)}
        waiting[op.name] = len(sources)
        for source in sources:
            after[source].append(op)
    ready = [op for op in reversed(ops) if not waiting[op.name]]
    order: list[tf.Operation] = []
    while ready:
        order.append(ready.pop())
        for follower in reversed(after[order[-1].name]):
            waiting[follower.name] -= 1
            if not waiting[follower.name]:
                ready.append(follower)
    return order


def _size(tensor: tf.Tensor) -> int:
    """Return the bytes of ``tensor``; what is not known counts as nothing."""
    try:
        return tensor_bytes(tensor)
    except DynamicShapeError:
        return 0
