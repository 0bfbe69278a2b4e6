"""Find the buffers behind tensors, the kinds of ops, and dependencies.

A tensor is named by a *key* ``(op, output)`` with the index of the op in the trace. The *root* of a tensor is
the key of the heavy output whose buffer it shares; None where the step owns no such buffer (parameters,
constants, light tensors)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property, partial

import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.devices import Kernels
from checkmate.backends.tf.trace.loops import (
    held_bytes,
    invariants,
    is_branch,
    is_loop,
    list_bytes,
    loop_lists,
)
from checkmate.backends.tf.trace.op_kinds import (
    FIXED_TYPES,
    LIGHT_BYTES,
    SHAPE_TYPES,
    OpKind,
    in_host_memory,
    is_view,
    keeps_argmax,
    takes_over_inputs,
)
from checkmate.backends.tf.trace.sizes import bounded_bytes, tensor_bytes
from checkmate.backends.tf.trace.trace import TracedStep, needed_ops
from checkmate.backends.tf.trace.walks import source
from checkmate.ir import Phase

Key = tuple[int, int]
ARGMAX = 1_000  # output number of the positions that a max pooling keeps for its gradient; they are no tensor
TOKEN = 2_000  # output number of "this op has run": zero bytes, an order where no tensor gives one


@dataclass(frozen=True, eq=False)
class Structure:
    """What the scheduler needs to know about a traced step. ``bytes_of``: bytes in the device's memory of
    every heavy output (``ARGMAX`` keys included). ``scratch``: heavy op → bytes that it holds only while it
    runs. ``given``: list or state that a loop returns → the loop's input whose buffer it reuses.
    ``in_variables``: updates computed in place in their variable's buffer. ``plain_bytes``: bytes of these
    updates' results in the plain step, where the variable gets a new buffer."""

    traced: TracedStep
    index: dict[str, int]
    kinds: tuple[OpKind, ...]
    bytes_of: dict[Key, int]
    roots: dict[Key, Key | None]
    scratch: dict[int, int]
    kernels: Kernels
    given: dict[Key, Key]
    in_variables: tuple[OverVariable, ...]
    plain_bytes: Mapping[Key, int]

    def takes_over(self, op: int) -> bool:
        return takes_over_inputs(self.ops[op], self.kernels)

    @property
    def ops(self) -> tuple[tf.Operation, ...]:
        return self.traced.ops

    @cached_property
    def heavy(self) -> tuple[int, ...]:
        return tuple(i for i, kind in enumerate(self.kinds) if kind is OpKind.HEAVY)

    def key(self, tensor: tf.Tensor) -> Key:
        return self.index[tensor.op.name], tensor.value_index

    def root(self, tensor: tf.Tensor) -> Key | None:
        return self.roots[self.key(source(tensor))]

    def direct_inputs(self, op: int) -> list[Key]:
        """Return the heavy outputs that ``op`` reads itself or through views, each once, in order."""
        keys = [root for tensor in self.ops[op].inputs if (root := self.root(tensor)) is not None]
        if self.ops[op].type == "MaxPoolGrad":
            pooled = self.root(self.ops[op].inputs[1])
            if pooled is not None and (pooled[0], ARGMAX) in self.bytes_of:
                keys.append((pooled[0], ARGMAX))
        return list(dict.fromkeys(keys))

    @cached_property
    def through_light(self) -> tuple[frozenset[Key], ...]:
        """Per op the heavy outputs that it needs through light ops, shapes of views, or control inputs."""
        needs: list[frozenset[Key]] = []
        for i, op in enumerate(self.ops):
            found: set[Key] = set()
            for number, tensor in enumerate(() if self.kinds[i] is OpKind.FIXED else op.inputs):
                producer = self.index[source(tensor).op.name]
                if self.kinds[producer] is not OpKind.HEAVY:
                    found |= needs[producer]
                viewed = op.type == "IdentityN" or number == 0  # other inputs are parameters, such as a shape
                reads = self.kinds[i] is OpKind.LIGHT or (self.kinds[i] is OpKind.VIEW and not viewed)
                if reads and (root := self.root(tensor)) is not None:
                    found.add(root)
            for producer in self.waits_for(i):
                found |= {(producer, TOKEN)} if self.kinds[producer] is OpKind.HEAVY else needs[producer]
            needs.append(frozenset(found))
        return tuple(needs)

    def reads(self, op: int) -> Iterator[int]:
        """Yield the ops, views among them, whose copies the copy of ``op`` reads."""
        for tensor in () if self.tells_shape(op) else self.ops[op].inputs:
            behind = source(tensor)
            while (
                behind.op.type == "IdentityN"
                and self.kinds[number := self.index[behind.op.name]] is OpKind.VIEW
            ):
                yield from self.waits_for(number)  # an IdentityN is copied for each of its tensors alone
                behind = source(behind.op.inputs[behind.value_index])
            yield self.index[behind.op.name]

    def waits_for(self, op: int) -> Iterator[int]:
        """Yield the ops that a copy of ``op`` needs control edges from. In place of a view it is the ops that
        made the viewed buffer, because a copied view could keep that buffer live for longer than
        scheduled."""
        for control in self.ops[op].control_inputs:
            number = self.index[control.name]
            kind = self.kinds[number]
            if kind is OpKind.VIEW or self.tells_shape(number):
                yield from sorted(self.made_for_view(number))
                yield from self.waits_for(number)
            elif kind is not OpKind.DEAD and control.type != "Placeholder":
                yield number

    def tells_shape(self, op: int) -> bool:
        """Return whether ``op`` tells a shape that is known, so that its copy is a constant."""
        return self.kinds[op] is OpKind.FIXED and self.ops[op].type in SHAPE_TYPES

    @cached_property
    def computed_before(self) -> tuple[frozenset[int], ...]:
        """Per op the heavy ops that are read or waited for where it is copied, through other ops too."""
        found: list[frozenset[int]] = []
        for op in range(len(self.ops)):
            before = {*self.reads(op), *self.waits_for(op)}
            heavy = {each for each in before if self.kinds[each] is OpKind.HEAVY}
            found.append(frozenset(heavy).union(*(found[each] for each in before - heavy)))
        return tuple(found)

    def made_for_view(self, op: int) -> frozenset[int]:
        """Return the heavy ops whose outputs the view ``op`` shares; none if it is no view. An op that waits
        for the view waits for them."""
        if self.kinds[op] is not OpKind.VIEW:
            return frozenset()
        roots = map(self.root, self.ops[op].inputs)
        return frozenset(root[0] for root in roots if root is not None)

    def inputs(self, op: int) -> list[Key]:
        """Return every heavy output that heavy ``op`` needs, direct ones first."""
        direct = self.direct_inputs(op)
        others = self.through_light[op] | self.update_after.get(op, frozenset())
        return direct + sorted(others - set(direct))

    @cached_property
    def update_after(self) -> dict[int, frozenset[Key]]:
        """Per update op, the earlier ops that use a variable which it overwrites, as ``TOKEN`` keys: the
        update must run after them. TensorFlow orders only the *read* of the variable before the update, and
        copies the variable if the tensor that was read is still in use."""
        readers = self._readers_of_variables
        found: dict[int, frozenset[Key]] = {}
        for op in self.heavy:
            written = self.variables_taken(op)
            if self.phase(op) is Phase.UPDATE and any(name in readers for name in written):
                found[op] = frozenset(key for name in written for key in readers.get(name, ()) if key[0] < op)
        return found

    @cached_property
    def late_updates(self) -> frozenset[int]:
        """Light ops that overwrite a variable which an earlier op reads. Light ops are in no schedule, so
        TensorFlow would run these too early."""
        return frozenset(
            i
            for i, (op, kind) in enumerate(zip(self.ops, self.kinds, strict=True))
            if kind is OpKind.LIGHT and self.phase(i) is Phase.UPDATE
            if private.is_stateful(op) and op.type != "ReadVariableOp"
            if any(
                reader < i
                for tensor in op.inputs
                for reader, _ in self._readers_of_variables.get(tensor.name, ())
            )
        )

    @cached_property
    def _readers_of_variables(self) -> dict[str, set[Key]]:
        readers: dict[str, set[Key]] = defaultdict(set)
        for op in self.heavy:
            if self.phase(op) is Phase.BACKWARD:
                for name in self.variables_read(op):
                    readers[name].add((op, TOKEN))
        return dict(readers)

    def variables_read(self, op: int) -> set[str]:
        """Return the resources, by name, of variables that ``op`` reads, through views and casts too."""
        found: set[str] = set()
        stack = [tensor for tensor in self.ops[op].inputs if self.root(tensor) is None]
        while stack:
            producer = stack.pop().op
            if producer.type == "ReadVariableOp":
                found.add(producer.inputs[0].name)
            elif self.kinds[self.index[producer.name]] is not OpKind.HEAVY:
                stack.extend(producer.inputs)
        return found

    def variables_taken(self, op: int) -> set[str]:
        """Return the resources, by name, that ``op`` takes itself, to write them or read parts."""
        return {tensor.name for tensor in self.ops[op].inputs if tensor.dtype == tf.resource}

    def outputs(self, op: int) -> Iterator[Key]:
        for number in range(len(self.ops[op].outputs)):
            yield op, number
        if (op, ARGMAX) in self.bytes_of:
            yield op, ARGMAX

    def phase(self, op: int) -> Phase:
        return self.traced.phases[op]


def structure_of(traced: TracedStep, kernels: Kernels) -> Structure:
    """Classify every op of ``traced``, and find the buffers of its tensors."""
    classifier = _Classifier(traced, kernels)
    for i in range(len(traced.ops)):
        classifier.take(i)
    return classifier.structure()


class _Classifier:
    def __init__(self, traced: TracedStep, kernels: Kernels) -> None:
        self._traced, self._kernels = traced, kernels
        self._index = {op.name: i for i, op in enumerate(traced.ops)}
        self._needed = needed_ops(traced)
        needed = (op for op in traced.ops if op.name in self._needed)
        self._read = {source(tensor).name for op in needed for tensor in op.inputs}
        self._bounds: dict[str, int] = {}
        self._kinds: list[OpKind] = []
        self._bytes: dict[Key, int] = {}
        self._roots: dict[Key, Key | None] = {}
        self._given: dict[Key, Key] = {}
        self._scratch: dict[int, int] = {}

    def take(self, i: int) -> None:
        op, update = self._traced.ops[i], self._traced.phases[i] is Phase.UPDATE
        size_of = partial(_tensor_bytes, bounds=self._bounds if update else None)
        inputs = [(self._index[tensor.op.name], tensor.value_index) for tensor in map(source, op.inputs)]
        kind, read = OpKind.DEAD, [self._roots[key] for key in inputs]
        if op.name in self._needed:
            kind = _kind(op, [self._kinds[producer] for producer, _ in inputs], read, self._bytes, size_of)
        self._kinds.append(kind)
        if kind is OpKind.HEAVY:
            self._take_heavy(i, op, read, size_of)
            return
        for number in range(len(op.outputs)):
            behind = number if op.type == "IdentityN" else 0
            self._roots[i, number] = read[behind] if kind is OpKind.VIEW else None

    def _take_heavy(
        self, i: int, op: tf.Operation, read: list[Key | None], size_of: Callable[[tf.Tensor], int]
    ) -> None:
        returned = loop_lists(op, self._read)
        for number, tensor in enumerate(op.outputs):
            key, loop_list = (i, number), returned.get(number)
            self._roots[key] = key
            self._bytes[key] = size_of(tensor) if loop_list is None else loop_list.bytes
            place = None if loop_list is None else loop_list.given
            if place is not None and (root := read[place]) is not None:
                self._given[key] = root
            if self._kernels is Kernels.CUDA and self._bytes[key] and in_host_memory(tensor):
                self._bytes[key] = 0
        self._given |= _given_state(op, i, read, self._read, self._bytes)
        if keeps_argmax(op, self._kernels):
            self._bytes[i, ARGMAX] = int(op.outputs[0].shape.num_elements())
        counted = {n for n, root in enumerate(read) if root is not None and self._bytes[root]}
        if held := held_bytes(op, self._kernels, returned, counted):
            self._scratch[i] = held

    def structure(self) -> Structure:
        ops, phases = self._traced.ops, self._traced.phases
        heavy = (i for i, kind in enumerate(self._kinds) if kind is OpKind.HEAVY)
        over = {i for i in heavy if takes_over_inputs(ops[i], self._kernels)}
        search = _WrittenOver(ops, phases, self._index, self._needed, over)
        assigns = (
            i for i, op in enumerate(ops) if op.type == "AssignVariableOp" and phases[i] is Phase.UPDATE
        )
        updates = (update for assign in assigns if (update := search.update_of(assign)) is not None)
        found = tuple(update for update in updates if self._bytes[update.ops[-1], 0] >= LIGHT_BYTES)
        plain_bytes = {(i, 0): self._bytes[i, 0] for update in found for i in update.ops}
        return Structure(
            self._traced,
            self._index,
            tuple(self._kinds),
            self._bytes | dict.fromkeys(plain_bytes, 0),
            self._roots,
            self._scratch,
            self._kernels,
            self._given,
            found,
            plain_bytes,
        )


def _tensor_bytes(tensor: tf.Tensor, *, bounds: dict[str, int] | None) -> int:
    if tensor.dtype == tf.variant:
        return list_bytes(tensor)
    return tensor_bytes(tensor) if bounds is None else bounded_bytes(tensor, bounds)


def _given_state(
    op: tf.Operation, index: int, read: list[Key | None], used: Set[str], bytes_of: dict[Key, int]
) -> dict[Key, Key]:
    """Return, per state that a loop returns, the input state whose buffer it reuses. A state that the loop
    returns unchanged takes no bytes, unless it is in ``used`` (names of tensors)."""
    found: dict[Key, Key] = {}
    if not is_loop(op):
        return found
    unchanged = invariants(op)
    for number, (tensor, root) in enumerate(zip(op.outputs, read, strict=True)):
        key = (index, number)
        if tensor.dtype == tf.variant:
            continue
        if number in unchanged and tensor.name not in used:
            bytes_of[key] = 0
        elif root is not None and bytes_of[root] == bytes_of[key] and root not in found.values():
            found[key] = root
    return found


def _kind(
    op: tf.Operation,
    sources: list[OpKind],
    roots: list[Key | None],
    bytes_of: dict[Key, int],
    size_of: Callable[[tf.Tensor], int],
) -> OpKind:
    if op.type in FIXED_TYPES:
        return OpKind.FIXED
    if op.type in SHAPE_TYPES and all(tensor.shape.is_fully_defined() for tensor in op.inputs):
        return OpKind.FIXED
    if op.type == "ReadVariableOp":
        return OpKind.LIGHT
    if is_view(op):
        if any(root is not None for root in roots):
            return OpKind.VIEW
        fixed = all(kind is OpKind.FIXED for kind in sources) and not op.control_inputs
        return OpKind.FIXED if fixed else OpKind.LIGHT
    if is_loop(op) or is_branch(op):
        return OpKind.HEAVY
    big_output = any(size_of(tensor) >= LIGHT_BYTES for tensor in op.outputs)
    big_input = any(root is not None and bytes_of[root] >= LIGHT_BYTES for root in roots)
    if private.is_stateful(op) and not big_output and not big_input:
        return OpKind.LIGHT
    # A small result of a big parameter (a norm, a penalty) is scheduled too: computing it takes time.
    big_fixed = any(size_of(source(tensor)) >= LIGHT_BYTES for tensor in op.inputs)
    return OpKind.HEAVY if big_output or big_input or big_fixed else OpKind.LIGHT


_MOST = 64  # ops between the read and the assignment
_HELD = frozenset({"ReadVariableOp", "Const", "Placeholder"})  # something else holds what they return


@dataclass(frozen=True)
class OverVariable:
    """An update computed in place in its variable's buffer by ``ops``, of which the first is the last to read
    the variable. Without this, ``variable.assign(factor * variable + change)`` makes a new tensor; the
    variable takes over that buffer and frees its own. A momentum then has another address after each step,
    which fragments the allocator's memory: one scheduled step of VGG16 needed 540 MiB, a later one 760. The
    ops write over the variable's buffer if nothing else refers to it, so the emission makes the variable
    release it after the last read (``backends.tf.emit.ordered``)."""

    reads: tuple[int, ...]
    ops: tuple[int, ...]
    assign: int


@dataclass(frozen=True, eq=False)
class _WrittenOver:
    """Finds the updates that can run in place. ``written_over``: ops that can write over an input."""

    ops: Sequence[tf.Operation]
    phases: Sequence[Phase]
    index: Mapping[str, int]
    needed: Collection[str]
    written_over: Collection[int]

    def update_of(self, assign: int) -> OverVariable | None:
        handle, value = self.ops[assign].inputs
        touched = {self.index[op.name] for op in handle.consumers() if op.name in self.needed}
        reads = tuple(sorted(i for i in touched if self.ops[i].type == "ReadVariableOp" and i < assign))
        if any(self.ops[i].type != "ReadVariableOp" for i in touched - {assign}):
            return None
        chain = self._chain(source(value), handle)
        if chain is None or any(self._reads_later(self.ops[read].outputs[0], chain[0]) for read in reads):
            return None
        return OverVariable(reads, tuple(chain), assign)

    def _chain(self, value: tf.Tensor, handle: tf.Tensor) -> list[int] | None:
        """Return the ops from the variable's read to ``value`` that each write over their input."""
        found: list[int] = []
        wanted = value
        while len(found) < _MOST:
            op = wanted.op
            if op.type == "ReadVariableOp":
                return found[::-1] if found and op.inputs[0].name == handle.name else None
            here = self.index.get(op.name, -1)
            if here not in self.written_over or self.phases[here] is not Phase.UPDATE:
                return None
            if found and self._readers(wanted) != {found[-1]}:
                return None
            found.append(here)
            following = self._written_over_by(op, handle)
            if following is None:
                return None
            wanted = following
        return None

    def _written_over_by(self, op: tf.Operation, handle: tf.Tensor) -> tf.Tensor | None:
        # TensorFlow writes over the first input that has the output's size and no other reference.
        for tensor in map(source, op.inputs):
            if tensor.shape != op.outputs[0].shape or tensor.dtype != op.outputs[0].dtype:
                continue
            read = tensor.op.type == "ReadVariableOp"
            if tensor.op.type not in _HELD or (read and tensor.op.inputs[0].name == handle.name):
                return tensor
        return None

    def _readers(self, tensor: tf.Tensor) -> set[int]:
        found: set[int] = set()
        stack = [tensor]
        while stack:
            looked_at = stack.pop()
            for op in looked_at.consumers():
                if op.type == "IdentityN":
                    stack.extend(op.outputs[n] for n, t in enumerate(op.inputs) if t.name == looked_at.name)
                elif op.type == "Identity" or (op.name in self.needed and is_view(op)):
                    stack.extend(op.outputs)
                elif op.name in self.needed:
                    found.add(self.index[op.name])
        return found

    def _reads_later(self, tensor: tf.Tensor, last: int) -> bool:
        readers = self._readers(tensor)
        return any(reader > last or self.phases[reader] is not Phase.UPDATE for reader in readers)
