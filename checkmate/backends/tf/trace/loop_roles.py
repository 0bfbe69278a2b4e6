"""Understand a loop and its gradient's loop, so that both can be split.

``tf.while_loop`` hands what its gradient needs to the backward loop in lists: each iteration appends to them,
and each iteration of the backward loop takes the last element off. What is not known to be so stays whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from typing import Any

import tensorflow as tf

from checkmate.backends.tf.trace.loops import (
    SUMS,
    fixed_inputs,
    invariants,
    is_loop,
    loop_function,
    step_of,
    value_of,
)
from checkmate.backends.tf.trace.walks import constant, needed, source, without_identities

_ASKS = frozenset({"TensorListLength", "TensorListElementShape"})
_GETS = frozenset({"TensorListGetItem"})
_GETS_AND_SETS = _GETS | {"TensorListSetItem"}


class Role(Enum):
    """How a loop uses one of its inputs, and what a part of the split loop gets.

    *Fixed*: the same in each iteration; every part gets it. *Appended*: a list that starts empty and is
    filled for the backward loop; each part fills its own. *Taken*: such a list in the backward loop; each
    part empties that of its forward part. *Read*: a list made from a tensor, of which iteration *i* reads
    element *i* only; a part gets its elements. *Written*: a list of which iteration *i* writes element *i*
    only, later read as one tensor; a part writes its elements. *Replaced*: a list made from a tensor, like
    *read*, that is not used after the loop. *Summed*: a list of zeros, like *written*. *State*: anything
    else; passed from part to part."""

    FIXED = auto()
    APPENDED = auto()
    TAKEN = auto()
    READ = auto()
    WRITTEN = auto()
    REPLACED = auto()
    SUMMED = auto()
    STATE = auto()


@dataclass(frozen=True, eq=False)
class Loop:
    """A loop of a traced step with its functions. ``needed``: names of the ops of the step that run."""

    op: tf.Operation
    body: Any
    condition: Any
    needed: frozenset[str]

    @cached_property
    def fixed(self) -> frozenset[int]:
        return fixed_inputs(self.body) - self.writes.keys()

    @cached_property
    def writes(self) -> dict[int, tf.Operation]:
        """The variables that each iteration reads and then writes once, by input number, with the writes: the
        seed of a dropout, the averages of a batch normalization."""
        found = {number: _write_of(place) for number, place in enumerate(self.body.inputs)}
        return {number: write for number, write in found.items() if write is not None}

    @cached_property
    def indices(self) -> frozenset[int]:
        """The inputs that count the iterations from 0."""
        return frozenset(
            number
            for number, tensor in enumerate(self.op.inputs)
            if step_of(self.op, number) == 1 and value_of(tensor) == 0
        )

    @cached_property
    def limit(self) -> int | None:
        """The input with which a backward loop's counter is compared."""
        return _place(self.condition, without_identities(self.condition.outputs[0]).op.inputs[1])

    def users(self, number: int) -> list[tf.Operation]:
        results = {tensor.op.name for tensor in self.body.outputs}
        found = _users(self.body.inputs[number])
        return [op for op in found if op.name not in results or op.type != "Identity"]

    def only_user(self, number: int, op: tf.Operation) -> bool:
        """Return whether ``op`` alone uses input ``number`` of the body, as its first input."""
        return self.is_place(op.inputs[0], number) and [u.name for u in self.users(number)] == [op.name]

    def readers(self, number: int) -> list[tuple[tf.Operation, int]]:
        return [found for found in _readers(self.op.outputs[number]) if found[0].name in self.needed]

    def result(self, number: int) -> tf.Operation:
        return without_identities(self.body.outputs[number]).op

    def is_place(self, tensor: tf.Tensor, number: int) -> bool:
        return without_identities(tensor) is self.body.inputs[number]

    def is_stacked(self, number: int, trips: int) -> bool:
        """Return whether list ``number`` is only read as one tensor of known shape."""
        return all(
            op.type == "TensorListStack"
            and op.outputs[0].shape.is_fully_defined()
            and op.outputs[0].shape[0] == trips
            for op, _ in self.readers(number)
        )

    def only_at(
        self, is_index: Callable[[tf.Tensor], bool], number: int, types: Set[str], but: str = ""
    ) -> bool:
        """Return whether only ops of ``types`` use list ``number``, at the index; ``but`` does not count."""
        return all(
            user.type in _ASKS or (user.type in types and is_index(user.inputs[1]))
            for user in self.users(number)
            if user.name != but
        )


def _write_of(handle: tf.Tensor) -> tf.Operation | None:
    users = [op for op in _users(handle) if op.type != "Identity"] if handle.dtype == tf.resource else []
    reads = [op for op in users if op.type == "ReadVariableOp"]
    write = next((op for op in users if op.type == "AssignVariableOp"), None)
    if write is None or not reads or len(users) != len(reads) + 1:
        return None
    value, read = write.inputs[1], reads[0].outputs[0]
    same = value.dtype == read.dtype and value.shape == read.shape and value.shape.is_fully_defined()
    waited_for = [tensor for control in write.control_inputs for tensor in control.outputs]
    before = needed([value, *waited_for], (), lambda tensor: tensor)
    return write if same and all(op.name in before for op in reads) else None


def _users(tensor: tf.Tensor) -> Iterator[tf.Operation]:
    for op in tensor.consumers():
        if op.type == "Identity" and op.outputs[0].consumers():
            yield from _users(op.outputs[0])
        else:
            yield op


def _readers(tensor: tf.Tensor) -> Iterator[tuple[tf.Operation, int]]:
    for op in tensor.consumers():
        if op.type == "Identity" and not op.control_inputs:
            yield from _readers(op.outputs[0])
        else:
            yield from ((op, number) for number, read in enumerate(op.inputs) if read is tensor)


def loop_of(op: tf.Operation, needed: frozenset[str]) -> Loop | None:
    """Return ``op`` as a loop; None if it is none, or its functions are not known."""
    if not is_loop(op):
        return None
    body, condition = loop_function(op), loop_function(op, "cond")
    return None if body is None or condition is None else Loop(op, body, condition, needed)


@dataclass(frozen=True, eq=False)
class Split:
    """How to split a loop together with the loops of its gradient. ``roles``: by the name of a loop's op, the
    role of each input. ``taken``: (backward loop, number of its input) → number of the forward loop's output
    that it reads. ``ends``: per part, the iteration after its last."""

    forward: Loop
    roles: Mapping[str, tuple[Role, ...]]
    taken: Mapping[tuple[str, int], int]
    ends: tuple[int, ...]

    @property
    def starts(self) -> tuple[int, ...]:
        return (0, *self.ends[:-1])


def understood(loop: Loop, others: Mapping[str, Loop], trips: int, ends: tuple[int, ...]) -> Split | None:
    """Return how to split ``loop`` where its iterations end at ``ends``; None: it, or a loop of its gradient,
    is not understood."""
    if 0 not in loop.indices or ends[-1] != trips:
        return None
    appended: dict[int, list[tuple[str, int]]] = {}
    for number in range(len(loop.op.inputs)):
        if _is_appended(loop, number):
            readers = [(op.name, place) for op, place in loop.readers(number)]
            if any(name not in others or name == loop.op.name for name, _ in readers):
                return None
            appended[number] = readers
    taken = {reader: number for number, readers in appended.items() for reader in readers}
    backward = [others[name] for name in dict.fromkeys(name for name, _ in taken)]
    if not backward or not all(_undoes(other, loop, taken) for other in backward):
        return None
    roles = {loop.op.name: _forward_roles(loop, appended, trips)}
    for other in backward:
        roles[other.op.name] = _backward_roles(other, loop, taken, trips)
    return Split(loop, roles, taken, ends)


def _is_appended(loop: Loop, number: int) -> bool:
    op = loop.result(number)
    return (
        op.type == "TensorListPushBack"
        and loop.only_user(number, op)
        and source(loop.op.inputs[number]).op.type == "EmptyTensorList"
    )


def _is_taken(loop: Loop, number: int) -> bool:
    """Return whether each iteration pops an element off the list, and nobody reads the rest."""
    op = loop.result(number)
    return op.type == "TensorListPopBack" and loop.only_user(number, op) and not loop.readers(number)


def _undoes(loop: Loop, forward: Loop, taken: Mapping[tuple[str, int], int]) -> bool:
    """Return whether ``loop`` runs as often as ``forward`` and pops all its lists, as backward loops do."""
    if 0 not in loop.indices or any(_is_appended(loop, number) for number in range(len(loop.op.inputs))):
        return False
    less = without_identities(loop.condition.outputs[0]).op
    if less.type != "Less" or _place(loop.condition, less.inputs[0]) != 0:
        return False
    if loop.limit is None or loop.limit not in loop.fixed or loop.users(loop.limit):
        return False
    count = source(loop.op.inputs[loop.limit])
    if count.op.name != forward.op.name or count.value_index != 0:
        return False
    return all(_is_taken(loop, number) for name, number in taken if name == loop.op.name)


def _place(function: Any, tensor: tf.Tensor) -> int | None:
    found = without_identities(tensor)
    return next((number for number, place in enumerate(function.inputs) if place is found), None)


def _forward_roles(loop: Loop, appended: Mapping[int, Any], trips: int) -> tuple[Role, ...]:
    def is_index(tensor: tf.Tensor) -> bool:
        return any(loop.is_place(tensor, number) for number in loop.indices)

    def role_of(number: int, given: tf.Tensor) -> Role:
        if number in appended:
            return Role.APPENDED
        if number in loop.fixed:
            read = given.dtype == tf.variant and loop.only_at(is_index, number, _GETS)
            return Role.READ if read and length_of(given) == trips else Role.FIXED
        if given.dtype == tf.variant:
            op, reserved = loop.result(number), source(given).op
            if (
                op.type == "TensorListSetItem"
                and loop.only_user(number, op)
                and is_index(op.inputs[1])
                and reserved.type == "TensorListReserve"
                and constant(reserved.inputs[1]) == trips
                and loop.is_stacked(number, trips)
            ):
                return Role.WRITTEN
        return Role.STATE

    return tuple(role_of(number, given) for number, given in enumerate(loop.op.inputs))


def _backward_roles(
    loop: Loop, forward: Loop, taken: Mapping[tuple[str, int], int], trips: int
) -> tuple[Role, ...]:
    def is_index(tensor: tf.Tensor) -> bool:
        """Return whether ``tensor`` is the number of the forward iteration."""
        popped = without_identities(tensor)
        if popped.op.type != "TensorListPopBack" or popped.value_index != 1:
            return False
        number = _place(loop.body, popped.op.inputs[0])
        made = taken.get((loop.op.name, -1 if number is None else number))
        if made is None:
            return False
        pushed = without_identities(forward.result(made).inputs[1])
        return any(pushed is forward.body.inputs[index] for index in forward.indices)

    def role_of(number: int, given: tf.Tensor) -> Role:
        if (loop.op.name, number) in taken:
            return Role.TAKEN
        if number in loop.fixed:
            return Role.FIXED
        op = loop.result(number)
        replaced = op.type == "TensorListSetItem"
        but = "" if replaced else op.name
        if given.dtype != tf.variant or not loop.only_at(is_index, number, _GETS_AND_SETS, but):
            return Role.STATE
        if replaced and loop.is_place(op.inputs[0], number) and not loop.readers(number):
            return Role.REPLACED if length_of(given) == trips else Role.STATE
        summed = _sums(loop, op, number, is_index) and loop.is_stacked(number, trips)
        return Role.SUMMED if summed and zeros_like(given) is not None else Role.STATE

    return tuple(role_of(number, given) for number, given in enumerate(loop.op.inputs))


def _sums(loop: Loop, op: tf.Operation, number: int, is_index: Callable[[tf.Tensor], bool]) -> bool:
    """Return whether ``op`` adds a tensor to the list's element of the same iteration."""
    if op.type not in SUMS | {"AddN"} or len(op.inputs) != 2 or op.outputs[0].dtype != tf.variant:
        return False
    for mine, other in (tuple(op.inputs), tuple(op.inputs)[::-1]):
        added = without_identities(other).op
        if loop.is_place(mine, number) and added.type == "TensorListSetItem":
            empty = without_identities(added.inputs[0]).op.type == "TensorListReserve"
            return bool(empty and is_index(added.inputs[1]))
    return False


def tensor_of(given: tf.Tensor) -> tf.Tensor | None:
    """Return the tensor that a list was made of; None if there is none, or its shape is not known."""
    op = source(given).op
    known = op.type == "TensorListFromTensor" and op.inputs[0].shape.is_fully_defined()
    return op.inputs[0] if known else None


def length_of(given: tf.Tensor) -> int | None:
    tensor = tensor_of(given)
    return None if tensor is None or not tensor.shape.rank else int(tensor.shape[0])


def zeros_like(given: tf.Tensor) -> tf.Tensor | None:
    """Return the tensor whose list the zeros ``given`` are like; else None."""
    op = source(given).op
    if op.type != "ZerosLike":
        return None
    like = source(op.inputs[0])
    if like.value_index in invariants(like.op):  # a loop hands the list on
        like = like.op.inputs[like.value_index]
    return tensor_of(like)
