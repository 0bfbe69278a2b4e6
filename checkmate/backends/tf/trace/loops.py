"""Tell how often a loop's body runs, what its lists of tensors hold, and what it allocates inside.

A recurrent layer's loop reads its input from a list with one element per time step, and hands what its
gradient needs to the backward loop, in lists of the same length. The handle of a list has no shape, so its
size is read off the ops that made it. A body's ops are replayed once, in order: what they hold at most at
once, beside the loop's lists and state, is scratch memory of the loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.devices import Kernels
from checkmate.backends.tf.trace.op_kinds import FIXED_TYPES, HANDLES, SHAPE_TYPES, is_view, takes_over_inputs
from checkmate.backends.tf.trace.sizes import most_elements, scratch_bytes, tensor_bytes
from checkmate.backends.tf.trace.walks import constant, in_order, needed, sources_of, without_identities
from checkmate.errors import DynamicShapeError

TRIPS = "_checkmate_trips"
"""Attribute of a loop that is a part of another one: how often its body runs at most."""

SUMS = frozenset({"Add", "AddV2"})
_FILLED_FROM = frozenset({"TensorListFromTensor", "TensorListScatterV2"})
_OPTIONAL = "OptionalFromValue"
_GIVEN_OUT = frozenset({"TensorListGetItem", "OptionalGetValue"})  # what they read holds it
_ADDED = {"TensorListPushBack": 1, "TensorListSetItem": 2}  # the input that is added to the list


def is_loop(op: tf.Operation) -> bool:
    return "body" in op.node_def.attr


def is_branch(op: tf.Operation) -> bool:
    return "then_branch" in op.node_def.attr or "branches" in op.node_def.attr


def loop_function(op: tf.Operation, name: str = "body") -> Any:
    return private.function_body(op.graph, op.node_def.attr[name].func.name)


def fixed_inputs(body: Any) -> frozenset[int]:
    """Return the inputs that a loop's body hands on as they are."""
    pairs = zip(body.inputs, body.outputs, strict=True)
    return frozenset(
        number for number, (given, returned) in enumerate(pairs) if without_identities(returned) is given
    )


def invariants(op: tf.Operation) -> frozenset[int]:
    """Return the inputs that the loop ``op`` hands on as they are; none for other ops."""
    body = loop_function(op) if is_loop(op) else None
    return frozenset() if body is None else fixed_inputs(body)


def counted_trips(op: tf.Operation) -> int | None:
    """Return the trips of the loop ``op`` if its condition compares a counter with a known number."""
    attributes = op.node_def.attr
    if TRIPS in attributes:
        return int(attributes[TRIPS].i)
    condition = loop_function(op, "cond")
    if condition is None:
        return None
    places = {id(place): number for number, place in enumerate(condition.inputs)}
    found: list[int] = []
    for less in _comparisons(condition.outputs[0]):
        number = places.get(id(without_identities(less.inputs[0])))
        if number is None:
            continue
        step, start = step_of(op, number), value_of(op.inputs[number])
        bound = without_identities(less.inputs[1])
        place = places.get(id(bound))
        end = constant(bound) if place is None else value_of(op.inputs[place])
        if step and start is not None and end is not None:
            found.append(max(0, -(-(end + (less.type == "LessEqual") - start) // step)))
    return min(found, default=None)


def _comparisons(tensor: tf.Tensor) -> Iterator[tf.Operation]:
    """Yield the comparisons that must all hold for ``tensor`` to be true."""
    op = without_identities(tensor).op
    if op.type == "LogicalAnd":
        for part in op.inputs:
            yield from _comparisons(part)
    elif op.type in ("Less", "LessEqual"):
        yield op


def step_of(op: tf.Operation, number: int) -> int | None:
    """Return what each iteration of the loop ``op`` adds to its input ``number``. None where that is no
    counter."""
    body = loop_function(op)
    if body is None:
        return None
    added = without_identities(body.outputs[number]).op
    for place, other in (tuple(added.inputs), tuple(added.inputs)[::-1]) if added.type in SUMS else ():
        if without_identities(place) is body.inputs[number]:
            same = (
                op.inputs[each]
                for each in fixed_inputs(body)
                if body.inputs[each] is without_identities(other)
            )
            return constant(next(same, other))
    return None


def value_of(tensor: tf.Tensor) -> int | None:
    """Return the value of an integer, which may be a loop's last count."""
    tensor = without_identities(tensor)
    if not is_loop(tensor.op):
        return constant(tensor)
    trips, start = counted_trips(tensor.op), value_of(tensor.op.inputs[tensor.value_index])
    step = step_of(tensor.op, tensor.value_index)
    return None if trips is None or start is None or step is None else start + trips * step


def trip_count(op: tf.Operation) -> int:
    """Return how often the loop's body runs, or was seen to run; else the length of its longest list, or the
    largest constant scalar, or 1."""
    counted = counted_trips(op)
    if counted is None:
        counted = private.noted_trips(op)
    if counted is not None:
        return counted
    lengths = [_elements(tensor) for tensor in op.inputs if tensor.dtype == tf.variant]
    longest = max((length for length in lengths if length is not None), default=None)
    if longest is not None:
        return longest
    bounds = [constant(tensor) for tensor in op.inputs if tensor.shape.rank == 0]
    return max([bound for bound in bounds if bound is not None and bound < 2**20], default=1)


@dataclass(frozen=True)
class LoopList:
    """A list that a loop returns. ``bytes``: of the elements that are not counted in another list of the
    loop. ``given``: the number of the input list whose memory it reuses; None: the loop makes the
    elements."""

    bytes: int
    given: int | None = None


def is_zeros(op: tf.Operation) -> bool:
    """Return whether ``op`` makes a list of zeros like another list: the first value of gradients."""
    return bool(op.type == "ZerosLike" and op.outputs[0].dtype == tf.variant)


def list_bytes(tensor: tf.Tensor) -> int:
    """Return the bytes of the list ``tensor``, if it was made from a tensor or is zeros like such a list;
    else 0."""
    tensor = without_identities(tensor)
    op = tensor.op
    if op.type in _FILLED_FROM:
        return tensor_bytes(op.inputs[0])
    if is_zeros(op):
        return list_bytes(op.inputs[0])
    return list_bytes(op.inputs[tensor.value_index]) if is_loop(op) else 0


def loop_lists(op: tf.Operation, read: Set[str]) -> dict[int, LoopList]:
    """Return the tensor lists that the loop ``op`` returns, by output index; none for other ops. ``read``:
    names of the tensors in use. A list has as many elements as were reserved (else as the loop has
    iterations), each of the size of what the body appends. A list counts as 0 bytes if its element cannot be
    found, or belongs to a variable or to another list."""
    if is_branch(op):
        return _kept_by_branches(op)
    body = loop_function(op) if is_loop(op) else None
    if body is None:
        return {}
    trips = trip_count(op)
    places = {id(place): number for number, place in enumerate(body.inputs)}
    found: dict[int, LoopList] = {}
    kept: set[int] = set()
    # Of two lists that share elements the later one is counted: lists for the backward loop come last, and
    # live longest.
    for index, output in reversed(list(enumerate(op.outputs))):
        if output.dtype != tf.variant or index >= len(body.outputs):
            continue
        found[index] = LoopList(0)
        given = list_bytes(op.inputs[index])
        if given:
            if output.name in read and id(body.inputs[index]) not in kept:
                found[index] = LoopList(given, index)
            continue
        appended = _appended_tensor(body.outputs[index])
        if appended is None or not appended.shape.is_fully_defined():
            continue
        element = without_identities(appended)
        if id(element) in places:
            # The body appends a state before updating it: all but the first were made by the iteration
            # before.
            element = without_identities(body.outputs[places[id(element)]])
        if id(element) in places and element is without_identities(body.outputs[places[id(element)]]):
            continue  # the state never changes: the loop holds no memory for it
        elements = _elements(op.inputs[index]) or trips
        size = _element_bytes(appended) * (min(elements, trips) if TRIPS in op.node_def.attr else elements)
        # An element popped from an input list is shared by both lists.
        origin = _list_of(element)
        if element.op.type == "ReadVariableOp" or id(origin) in kept:
            continue
        kept.add(id(origin))
        place = places.get(id(origin))
        taken = place is not None and list_bytes(op.inputs[place]) == size
        first = _first_of(element)
        if first is not None and id(first) not in places and id(_list_of(first)) not in kept:
            kept.add(id(_list_of(first)))
            size += elements * tensor_bytes(first)
        found[index] = LoopList(size, place if taken else None)
    return found


def _kept_by_branches(op: tf.Operation) -> dict[int, LoopList]:
    """Return the tensors that the branches of ``op`` keep for their gradient. A branch returns each as an
    optional output, which is empty for the other branches. Inputs, other results and variables need no memory
    of their own, and are not counted."""
    found: dict[int, LoopList] = {}
    for body in bodies_of(op):
        counted = {_behind_views(tensor).name for tensor in (*body.inputs, *body.outputs)}
        for number, output in enumerate(body.outputs):
            optional = without_identities(output).op
            if optional.type == _OPTIONAL:
                (kept,) = map(_behind_views, optional.inputs)
                free = kept.name in counted or kept.op.type == "ReadVariableOp"
                before = found[number].bytes if number in found else 0
                found[number] = LoopList(before if free else max(before, _size(kept)))
                counted.add(kept.name)
    return found


def _behind_views(tensor: tf.Tensor) -> tf.Tensor:
    while is_view(tensor.op):
        tensor = tensor.op.inputs[tensor.value_index if tensor.op.type == "IdentityN" else 0]
    return tensor


def _element_bytes(tensor: tf.Tensor) -> int:
    """Return the bytes of a list's element, which may itself be what an inner loop or branch keeps."""
    if tensor.dtype != tf.variant:
        return tensor_bytes(tensor)
    element = without_identities(tensor)
    inner = loop_lists(element.op, frozenset()).get(element.value_index)
    return list_bytes(tensor) if inner is None else inner.bytes


def _list_of(element: tf.Tensor) -> tf.Tensor:
    """Return the list that ``element`` was read from; else itself."""
    read = element.op.type == "TensorListGetItem"
    return without_identities(element.op.inputs[0]) if read else element


def _first_of(element: tf.Tensor) -> tf.Tensor | None:
    """Return the initial state of an inner loop whose list ``element`` holds that state at the start of each
    iteration; else None."""
    body = loop_function(element.op) if is_loop(element.op) else None
    appended = None if body is None else _appended_tensor(body.outputs[element.value_index])
    if body is None or appended is None:
        return None
    state = without_identities(appended)
    given = (each for place, each in zip(body.inputs, element.op.inputs, strict=True) if place is state)
    return next(map(without_identities, given), None)


def _appended_tensor(returned: tf.Tensor) -> tf.Tensor | None:
    op = without_identities(returned).op
    return op.inputs[_ADDED[op.type]] if op.type in _ADDED else None


def _elements(tensor: tf.Tensor) -> int | None:
    """Return the length of the list ``tensor``, which may only be reserved; None if it is not known."""
    op = without_identities(tensor).op
    count: int | None = None
    if op.type in ("TensorListReserve", "EmptyTensorList"):
        count = constant(op.inputs[1])
    elif op.type == "TensorListFromTensor" and op.inputs[0].shape.rank:
        count = op.inputs[0].shape[0]
    return count if count is not None and count > 0 else None


def held_bytes(op: tf.Operation, kernels: Kernels, lists: Mapping[int, LoopList], counted: Set[int]) -> int:
    """Return the bytes that ``op`` holds only while it runs, beside inputs, outputs and ``lists``.
    ``counted``: numbers of input lists whose bytes are counted as values, so that popping an element frees
    memory."""
    if is_branch(op) or _is_call(op):
        outputs = sum(map(_size, op.outputs)) + sum(kept.bytes for kept in lists.values())
        return max([0, *(_FunctionReplay(body, kernels).peak() - outputs for body in bodies_of(op))])
    body = loop_function(op) if is_loop(op) else None
    if body is None:
        return scratch_bytes(op, kernels)
    state = {n for n, tensor in enumerate(op.inputs) if tensor.dtype not in HANDLES} - fixed_inputs(body)
    trips = max(1, trip_count(op))
    added = sum(found.bytes // trips for found in lists.values() if found.given is None)
    returned = sum(_size(op.outputs[number]) for number in state)
    return max(0, _FunctionReplay(body, kernels, state, counted).peak() - added - returned)


def iteration_bytes(op: tf.Operation, kernels: Kernels) -> int:
    """Return the bytes that an iteration of the loop ``op`` makes in all: as much as it may hold while others
    run beside it."""
    body = loop_function(op)
    return 0 if body is None else _FunctionReplay(body, kernels).made()


def _is_call(op: tf.Operation) -> bool:
    return "f" in op.node_def.attr


def bodies_of(op: tf.Operation) -> list[Any]:
    bodies = (private.function_body(op.graph, name) for _, name in private.called_functions(op))
    return [body for body in bodies if body is not None]


def operations(op: tf.Operation) -> float:
    """Return TensorFlow's count of operations, a loop's for all its trips; else one per element."""
    if is_loop(op):
        body = loop_function(op)
        return trip_count(op) * (0.0 if body is None else sum(map(operations, body.get_operations())))
    if is_branch(op) or _is_call(op):
        return max((sum(map(operations, body.get_operations())) for body in bodies_of(op)), default=0.0)
    counted = private.flops(op.graph, op)
    if counted is not None:
        return counted
    return float(sum(most_elements(tensor) or 0 for tensor in op.outputs))


class _FunctionReplay:
    """Replays a function's ops once, to find the bytes they hold. ``state``: numbers of inputs that are the
    loop's state and count as live. ``counted``: numbers of input lists from which popping frees bytes."""

    def __init__(
        self, body: Any, kernels: Kernels, state: Set[int] = frozenset(), counted: Set[int] = frozenset()
    ) -> None:
        self.kernels = kernels
        self.ops = _needed_in_order(body)
        self.lists = {body.inputs[number].name for number in counted}
        self.size = {body.inputs[number].name: _size(body.inputs[number]) for number in state}
        self.root: dict[str, str] = {name: name for name in self.size}  # the buffer of each tensor, by name
        self.live = sum(self.size.values())
        self.results = [tensor.name for tensor in body.outputs]

    def made(self) -> int:
        """Return the bytes of all that the ops allocate, with their scratch."""
        for op in self.ops:
            self._follow(op)
        made = [tensor.name for op in self.ops for tensor in op.outputs if self._allocates(tensor)]
        return sum(self.size[name] for name in made) + sum(map(self._scratch, self.ops))

    def peak(self) -> int:
        for op in self.ops:
            self._follow(op)
        last = {name: number for number, op in enumerate(self.ops) for name in self._read(op)}
        kept = {self.root.get(name) for name in self.results}
        kept |= {self.root.get(op.inputs[-1].name) for op in self.ops if op.type in _ADDED}
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
        if op.type in FIXED_TYPES or op.type in SHAPE_TYPES or op.type == "ReadVariableOp":
            return
        lists = loop_lists(op, frozenset())
        for number, tensor in enumerate(op.outputs):
            if number in lists:
                self.root[tensor.name], self.size[tensor.name] = tensor.name, lists[number].bytes
            elif is_view(op) or op.type == _OPTIONAL:
                found = self.root.get(op.inputs[number if op.type == "IdentityN" else 0].name)
                if found is not None:
                    self.root[tensor.name] = found
            elif tensor.dtype not in HANDLES and op.type not in _GIVEN_OUT:
                if op.type == "TensorListPopBack" and not self._taken_off(tensor):
                    continue
                self.root[tensor.name], self.size[tensor.name] = tensor.name, _size(tensor)

    def _allocates(self, tensor: tf.Tensor) -> bool:
        own = self.root.get(tensor.name) == tensor.name
        return own and tensor.op.type not in FIXED_TYPES and not self._taken_off(tensor)

    def _taken_off(self, tensor: tf.Tensor) -> bool:
        """Return whether ``tensor`` was popped off a list that is counted."""
        op = tensor.op
        return op.type == "TensorListPopBack" and without_identities(op.inputs[0]).name in self.lists

    def _read(self, op: tf.Operation) -> list[str]:
        if is_view(op) or op.type in SHAPE_TYPES:
            return []
        roots = (self.root.get(tensor.name) for tensor in op.inputs)
        return [name for name in dict.fromkeys(roots) if name is not None]

    def _scratch(self, op: tf.Operation) -> int:
        return held_bytes(op, self.kernels, loop_lists(op, frozenset()), frozenset())


def _needed_in_order(body: Any) -> list[tf.Operation]:
    """Return the ops of a function that run, depth first: TensorFlow prefers ops that just became ready."""
    names = needed(body.outputs, body.get_operations(), lambda tensor: tensor)
    ops = [op for op in body.get_operations() if op.name in names]
    return [ops[i] for i in in_order(sources_of(ops), lambda item, order: (-len(order), item))]


def _size(tensor: tf.Tensor) -> int:
    try:
        return _element_bytes(tensor)
    except DynamicShapeError:  # it counts as nothing
        return 0
