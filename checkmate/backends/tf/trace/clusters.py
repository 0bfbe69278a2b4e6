"""Group heavy ops into the nodes that are scheduled.

A group holds what the runtime fuses, and what is pointless to separate. There are five rules. Each keeps the
node graph free of cycles; ``ordered_clusters`` verifies that, and repairs it.

1. An op joins its producer if only it reads the producer's output, and if it is element-wise of equal size or
   reduces the output to something light (convolution + bias + activation; scale + shift + activation; squared
   difference + mean).
2. An op with no big inputs and one big output joins its only reader (the broadcasts in the gradient of
   BatchNorm), unless it is random or reads a parameter. A list of zeros like another list, to which a
   backward loop adds gradients, does the same.
3. On a CPU the gradient of a bias joins the filter gradient that reads the same tensor. oneDNN computes both
   in one kernel, and control edges between the two would form a cycle. The kernels of a GPU do not.
4. The whole update of one variable is one node.
5. What reads a loop's list as one tensor joins the loop. Other lists of the loop may share its elements, and
   count them.
"""

from __future__ import annotations

import heapq
from collections import defaultdict

import networkx

from checkmate.backends.tf.devices import Kernels
from checkmate.backends.tf.trace.dataflow import Key, Structure
from checkmate.backends.tf.trace.loops import tensor_lists
from checkmate.backends.tf.trace.loops.trips import is_loop
from checkmate.backends.tf.trace.op_kinds import ELEMENTWISE_TYPES, LIGHT_BYTES, RANDOM_TYPES
from checkmate.ir.graph import Phase

_FILTER_GRADIENTS = frozenset(
    {"Conv2DBackpropFilter", "Conv3DBackpropFilterV2", "DepthwiseConv2dNativeBackpropFilter", "MatMul"}
)


_LIST_READERS = frozenset({"TensorListStack", "TensorListGather"})


_APART = RANDOM_TYPES | _LIST_READERS  # these do not join their only reader


class Union:
    """Hold disjoint sets of op indices. A set is represented by its smallest member."""

    def __init__(self, members: tuple[int, ...]) -> None:
        self._parent = {member: member for member in members}

    def find(self, member: int) -> int:
        """Return the smallest member of the set of ``member``."""
        while self._parent[member] != member:
            self._parent[member] = self._parent[self._parent[member]]
            member = self._parent[member]
        return member

    def join(self, a: int, b: int) -> None:
        """Make one set of the sets of ``a`` and ``b``."""
        a, b = sorted((self.find(a), self.find(b)))
        self._parent[b] = a

    def groups(self) -> dict[int, list[int]]:
        """Return the members of each set, by its smallest member."""
        found: dict[int, list[int]] = defaultdict(list)
        for member in sorted(self._parent):
            found[self.find(member)].append(member)
        return found


def clusters_of(structure: Structure, kept: frozenset[Key]) -> list[tuple[int, ...]]:
    """Return the nodes as tuples of heavy op indices, in a valid order.

    ``kept``: outputs that leave the step.
    """
    union = Union(structure.heavy)
    readers = _readers(structure)
    _join_to_producers(structure, union, readers, kept)
    _join_broadcasts(structure, union, readers, kept)
    if structure.kernels is not Kernels.CUDA:
        _join_bias_gradients(structure, union)
    _join_updates(structure, union)
    _join_list_readers(structure, union, readers)
    return [_in_variables_last(structure, members) for members in ordered_clusters(structure, union)]


def _in_variables_last(structure: Structure, members: tuple[int, ...]) -> tuple[int, ...]:
    """Return ``members``, what is computed in a variable as late as can be.

    The variable has no value meanwhile, so nothing that could run out of memory should stand there.
    """
    for update in structure.in_variables:
        if update.ops[0] in members:
            waiting = {update.ops[0]}
            for op in members:
                if any(key[0] in waiting for key in structure.inputs(op)):
                    waiting.add(op)
            members = (*(op for op in members if op not in waiting), *(op for op in members if op in waiting))
    return members


def _readers(structure: Structure) -> dict[Key, list[int]]:
    """Return the ops that read each heavy output."""
    found: dict[Key, list[int]] = defaultdict(list)
    for op in structure.heavy:
        for key in structure.inputs(op):
            found[key].append(op)
    return found


def _big(structure: Structure, key: Key) -> bool:
    return structure.bytes_of.get(key, 0) >= LIGHT_BYTES


def _join_to_producers(
    structure: Structure, union: Union, readers: dict[Key, list[int]], kept: frozenset[Key]
) -> None:
    """Join ops with the producer of their input, by rule 1."""
    # Of each group, by its representative: the position of the first member, the inputs, the members.
    first: dict[int, int] = {op: op for op in structure.heavy}
    inputs_of: dict[int, set[Key]] = {op: set(structure.direct_inputs(op)) for op in structure.heavy}
    members: dict[int, set[int]] = {op: {op} for op in structure.heavy}
    for op in structure.heavy:
        if structure.phase(op) is Phase.UPDATE or tensor_lists.is_zeros(structure.ops[op]):
            continue
        outputs = [structure.bytes_of[key] for key in structure.outputs(op)]
        for key in structure.direct_inputs(op):
            if (
                not _big(structure, key)
                or key in kept
                or readers[key] != [op]
                or structure.phase(key[0]) is Phase.UPDATE
            ):
                continue
            elementwise = structure.ops[op].type in ELEMENTWISE_TYPES and outputs == [structure.bytes_of[key]]
            if not elementwise and not all(size < LIGHT_BYTES for size in outputs):
                continue
            target = union.find(key[0])
            others = [k for k in structure.inputs(op) if k != key and k[0] not in members[target]]
            ready = all(
                (k in inputs_of[target]) if _big(structure, k) else k[0] < first[target] for k in others
            )
            if not ready or union.find(op) == target:
                continue
            old = union.find(op)
            union.join(op, target)
            new = union.find(op)
            first[new] = min(first[old], first[target])
            members[new] = members[old] | members[target]
            inputs_of[new] = inputs_of[old] | inputs_of[target]
            break


def _join_broadcasts(
    structure: Structure, union: Union, readers: dict[Key, list[int]], kept: frozenset[Key]
) -> None:
    """Join ops with their only reader, by rule 2."""
    for op in reversed(structure.heavy):
        traced = structure.ops[op]
        outputs = list(structure.outputs(op))
        if traced.type in _APART or structure.phase(op) is Phase.UPDATE or len(outputs) != 1:
            continue
        reads_big = any(_big(structure, key) for key in structure.inputs(op)) and not tensor_lists.is_zeros(
            traced
        )
        if reads_big or outputs[0] in kept:
            continue
        if any(tensor.op.type == "ReadVariableOp" for tensor in traced.inputs):
            continue
        users = readers[outputs[0]]
        if len(users) == 1 and structure.phase(users[0]) is not Phase.UPDATE:
            union.join(op, users[0])


def _join_bias_gradients(structure: Structure, union: Union) -> None:
    """Join bias gradients with filter gradients, by rule 3."""
    by_gradient: dict[Key, int] = {}
    for op in structure.heavy:
        if structure.ops[op].type in _FILTER_GRADIENTS and structure.phase(op) is Phase.BACKWARD:
            for key in structure.direct_inputs(op):
                # The product for the gradient of the kernel follows the one for the input; the last wins.
                by_gradient[key] = op
    for op in structure.heavy:
        if structure.ops[op].type == "BiasAddGrad":
            for key in structure.direct_inputs(op):
                if key in by_gradient:
                    union.join(op, by_gradient[key])


def _join_updates(structure: Structure, union: Union) -> None:
    """Join all ops that update one variable, by rule 4."""
    written = _written_variables(structure)
    by_variable: dict[str, int] = {}
    for op in structure.heavy:
        if structure.phase(op) is not Phase.UPDATE:
            continue
        for key in structure.direct_inputs(op):
            if structure.phase(key[0]) is Phase.UPDATE and (
                _big(structure, key) or key in structure.plain_bytes
            ):
                union.join(op, key[0])
        for tensor in structure.ops[op].inputs:
            source = tensor.op.inputs[0] if tensor.op.type == "ReadVariableOp" else tensor
            if source.name in written:
                union.join(op, by_variable.setdefault(source.name, op))


def _join_list_readers(structure: Structure, union: Union, readers: dict[Key, list[int]]) -> None:
    """Join what reads a list as one tensor with the loop that wrote it. This is rule 5."""
    for op in structure.heavy:
        if structure.ops[op].type in _LIST_READERS:
            root = structure.root(structure.ops[op].inputs[0])
            if root is not None and is_loop(structure.ops[root[0]]) and readers[root] == [op]:
                union.join(op, root[0])


def _written_variables(structure: Structure) -> set[str]:
    """Return the names of the resources that updates write.

    A resource that is only read, such as a learning rate, must not tie ops together: the updates of all
    variables would become one node, and every gradient would be held until the last.
    """
    return {
        tensor.name
        for op in structure.heavy
        if structure.phase(op) is Phase.UPDATE
        for tensor in structure.ops[op].inputs
        if tensor.dtype.name == "resource"
    }


def ordered_clusters(structure: Structure, union: Union) -> list[tuple[int, ...]]:
    """Return the groups of ``union`` in a valid order.

    They are ordered by the position of their last op; updates by gradients come as early as they can run. A
    group that would be part of a cycle is taken apart again, so the result is always valid.
    """
    groups = list(union.groups().values())
    while True:
        before = _dependencies(structure, groups)
        order = _sort(structure, groups, before)
        if len(order) == len(groups):
            return [tuple(groups[g]) for g in order]
        links = networkx.DiGraph((source, g) for g, sources in enumerate(before) for source in sources)
        tangled = (part for part in networkx.strongly_connected_components(links) if len(part) > 1)
        broken = {g for part in tangled for g in part if len(groups[g]) > 1}
        groups = [group for g, group in enumerate(groups) if g not in broken] + [
            [op] for g in broken for op in groups[g]
        ]


def _dependencies(structure: Structure, groups: list[list[int]]) -> list[set[int]]:
    group_of = {op: g for g, group in enumerate(groups) for op in group}
    before: list[set[int]] = [set() for _ in groups]
    for g, group in enumerate(groups):
        for op in group:
            before[g].update(group_of[key[0]] for key in structure.inputs(op))
        before[g].discard(g)
    return before


def _sort(structure: Structure, groups: list[list[int]], before: list[set[int]]) -> list[int]:
    """Return the groups in order.

    The result is shorter than ``groups`` where a cycle keeps some of them from being ordered.
    """
    after: list[list[int]] = [[] for _ in groups]
    for g, sources in enumerate(before):
        for source in sources:
            after[source].append(g)
    waiting = [len(sources) for sources in before]
    place: dict[int, float] = {}
    phases = [structure.phase(group[0]) for group in groups]

    def key(g: int) -> float:
        # A metric of predictions is an update too. Early, its tensors would come to all activations.
        after_gradients = any(phases[source] in (Phase.BACKWARD, Phase.UPDATE) for source in before[g])
        if phases[g] is Phase.UPDATE and after_gradients:
            return max(place[source] for source in before[g]) + 0.5
        return float(groups[g][-1])

    heap = [(key(g), g) for g, count in enumerate(waiting) if count == 0]
    heapq.heapify(heap)
    order: list[int] = []
    while heap:
        place_of, g = heapq.heappop(heap)
        place[g] = place_of
        order.append(g)
        for follower in after[g]:
            waiting[follower] -= 1
            if waiting[follower] == 0:
                heapq.heappush(heap, (key(follower), follower))
    return order
