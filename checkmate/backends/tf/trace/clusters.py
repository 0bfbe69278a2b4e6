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
5. An op that stacks a loop's list into one tensor joins the loop, because another list of the loop may share
   the elements, and be the one that counts them.
"""

from __future__ import annotations

from collections import defaultdict

import networkx
from networkx.utils import UnionFind

from checkmate.backends.tf.devices import Kernels
from checkmate.backends.tf.trace.dataflow import Key, Structure
from checkmate.backends.tf.trace.loops import is_loop, is_zeros
from checkmate.backends.tf.trace.op_kinds import ELEMENTWISE_TYPES, LIGHT_BYTES, RANDOM_TYPES
from checkmate.backends.tf.trace.walks import in_order
from checkmate.ir import Phase

_FILTER_GRADIENTS = frozenset(
    {"Conv2DBackpropFilter", "Conv3DBackpropFilterV2", "DepthwiseConv2dNativeBackpropFilter", "MatMul"}
)
_LIST_READERS = frozenset({"TensorListStack", "TensorListGather"})
_APART = RANDOM_TYPES | _LIST_READERS  # these do not join their only reader


def clusters_of(structure: Structure, kept: frozenset[Key]) -> list[tuple[int, ...]]:
    """Return the nodes as tuples of heavy ops, in a valid order. ``kept``: outputs that leave the step."""
    union = UnionFind(structure.heavy)
    readers: dict[Key, list[int]] = defaultdict(list)
    for op in structure.heavy:
        for key in structure.inputs(op):
            readers[key].append(op)
    _join_to_producers(structure, union, readers, kept)
    _join_broadcasts(structure, union, readers, kept)
    if structure.kernels is not Kernels.CUDA:
        _join_bias_gradients(structure, union)
    _join_updates(structure, union)
    _join_list_readers(structure, union, readers)
    return [_in_variables_last(structure, members) for members in ordered_clusters(structure, union)]


def _in_variables_last(structure: Structure, members: tuple[int, ...]) -> tuple[int, ...]:
    # In-place updates come as late as possible: the variable has no value until they end, so running out of
    # memory in between would lose it.
    for update in structure.in_variables:
        if update.ops[0] in members:
            waiting = {update.ops[0]}
            for op in members:
                if any(key[0] in waiting for key in structure.inputs(op)):
                    waiting.add(op)
            members = (*(op for op in members if op not in waiting), *(op for op in members if op in waiting))
    return members


def _big(structure: Structure, key: Key) -> bool:
    return structure.bytes_of.get(key, 0) >= LIGHT_BYTES


def _join_to_producers(
    structure: Structure, union: UnionFind, readers: dict[Key, list[int]], kept: frozenset[Key]
) -> None:
    # By each group's representative: the position of its first member, its inputs, its members.
    first: dict[int, int] = {op: op for op in structure.heavy}
    inputs_of: dict[int, set[Key]] = {op: set(structure.direct_inputs(op)) for op in structure.heavy}
    members: dict[int, set[int]] = {op: {op} for op in structure.heavy}
    for op in structure.heavy:
        if structure.phase(op) is Phase.UPDATE or is_zeros(structure.ops[op]):
            continue
        outputs = [structure.bytes_of[key] for key in structure.outputs(op)]
        light = all(size < LIGHT_BYTES for size in outputs)
        for key in structure.direct_inputs(op):
            if not _big(structure, key) or key in kept or readers[key] != [op]:
                continue
            if structure.phase(key[0]) is Phase.UPDATE:
                continue
            elementwise = structure.ops[op].type in ELEMENTWISE_TYPES and outputs == [structure.bytes_of[key]]
            old, target = union[op], union[key[0]]
            if not (elementwise or light) or old == target:
                continue
            others = [k for k in structure.inputs(op) if k != key and k[0] not in members[target]]
            if not all(
                (k in inputs_of[target]) if _big(structure, k) else k[0] < first[target] for k in others
            ):
                continue
            union.union(op, target)
            new = union[op]
            first[new] = min(first[old], first[target])
            members[new] = members[old] | members[target]
            inputs_of[new] = inputs_of[old] | inputs_of[target]
            break


def _join_broadcasts(
    structure: Structure, union: UnionFind, readers: dict[Key, list[int]], kept: frozenset[Key]
) -> None:
    for op in reversed(structure.heavy):
        traced = structure.ops[op]
        outputs = list(structure.outputs(op))
        if traced.type in _APART or structure.phase(op) is Phase.UPDATE or len(outputs) != 1:
            continue
        reads_big = any(_big(structure, key) for key in structure.inputs(op))
        if (reads_big and not is_zeros(traced)) or outputs[0] in kept:
            continue
        if any(tensor.op.type == "ReadVariableOp" for tensor in traced.inputs):
            continue
        users = readers[outputs[0]]
        if len(users) == 1 and structure.phase(users[0]) is not Phase.UPDATE:
            union.union(op, users[0])


def _join_bias_gradients(structure: Structure, union: UnionFind) -> None:
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
                    union.union(op, by_gradient[key])


def _join_updates(structure: Structure, union: UnionFind) -> None:
    written = _written_variables(structure)
    by_variable: dict[str, int] = {}
    for op in structure.heavy:
        if structure.phase(op) is not Phase.UPDATE:
            continue
        for key in structure.direct_inputs(op):
            if structure.phase(key[0]) is Phase.UPDATE and (
                _big(structure, key) or key in structure.plain_bytes
            ):
                union.union(op, key[0])
        for tensor in structure.ops[op].inputs:
            source = tensor.op.inputs[0] if tensor.op.type == "ReadVariableOp" else tensor
            if source.name in written:
                union.union(op, by_variable.setdefault(source.name, op))


def _join_list_readers(structure: Structure, union: UnionFind, readers: dict[Key, list[int]]) -> None:
    for op in structure.heavy:
        if structure.ops[op].type in _LIST_READERS:
            root = structure.root(structure.ops[op].inputs[0])
            if root is not None and is_loop(structure.ops[root[0]]) and readers[root] == [op]:
                union.union(op, root[0])


def _written_variables(structure: Structure) -> set[str]:
    """Return the resources that updates write. One that is only read, such as a learning rate, must not join
    all updates in one node."""
    return {
        tensor.name
        for op in structure.heavy
        if structure.phase(op) is Phase.UPDATE
        for tensor in structure.ops[op].inputs
        if tensor.dtype.name == "resource"
    }


def ordered_clusters(structure: Structure, union: UnionFind) -> list[tuple[int, ...]]:
    """Return the groups of ``union`` in the order of their last ops; updates by gradients come as early as
    they can. A group that would be part of a cycle is taken apart again."""
    groups = sorted(sorted(members) for members in union.to_sets())
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
    return [
        {group_of[key[0]] for op in group for key in structure.inputs(op)} - {g}
        for g, group in enumerate(groups)
    ]


def _sort(structure: Structure, groups: list[list[int]], before: list[set[int]]) -> list[int]:
    """Return the groups in order; those in a cycle are left out."""
    phases = [structure.phase(group[0]) for group in groups]
    place: dict[int, float] = {}

    def key(g: int, _: list[int]) -> float:
        # Only updates by gradients come early. A metric of predictions is an update too; run early, its
        # tensors would add to the peak, when all activations are live.
        after_gradients = any(phases[source] in (Phase.BACKWARD, Phase.UPDATE) for source in before[g])
        place[g] = float(groups[g][-1])
        if phases[g] is Phase.UPDATE and after_gradients:
            place[g] = max(place[source] for source in before[g]) + 0.5
        return place[g]

    return in_order(before, key)
