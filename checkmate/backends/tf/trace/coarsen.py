"""Fold the traced step into the graph that is scheduled.

The graph has a few hundred nodes, and its memory is exact. A node is a cluster of heavy ops
(``backends.tf.trace.clusters``). A value is a heavy output that another node reads, or that leaves the step.
What a node allocates and frees by itself is its workspace; it is found by replaying the node's ops.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from checkmate.backends.tf.devices import Kernels
from checkmate.backends.tf.trace.clusters import clusters_of
from checkmate.backends.tf.trace.dataflow import ARGMAX, TOKEN, Key, Structure, structure_of
from checkmate.backends.tf.trace.layers import group_names
from checkmate.backends.tf.trace.loops import is_loop
from checkmate.backends.tf.trace.op_kinds import GRADIENT_OVER_LOGITS, recomputable
from checkmate.backends.tf.trace.split_loops import with_split_loops
from checkmate.backends.tf.trace.trace import TracedStep
from checkmate.errors import OnlySmallTensorsError
from checkmate.ir.graph import CostOrigin, CostUnit, Device, Graph, Op, Value


@dataclass(frozen=True, eq=False)
class FoldedStep:
    """A traced step and its graph.

    ``nodes[i]``: trace indices of the heavy ops of op ``i`` of ``graph``, in order. ``values[v]``: the key of
    value ``v``.
    """

    structure: Structure
    nodes: tuple[tuple[int, ...], ...]
    values: tuple[Key, ...]
    graph: Graph

    @property
    def traced(self) -> TracedStep:
        return self.structure.traced

    @cached_property
    def node_of(self) -> dict[int, int]:
        """The node of each heavy op, by the op's trace index."""
        return {op: node for node, members in enumerate(self.nodes) for op in members}


def fold(
    traced: TracedStep, kernels: Kernels, *, fixed: dict[str, int], device: Device, metadata: dict[str, Any]
) -> FoldedStep:
    """Return the graph of ``traced``, with costs of 0.

    ``backends.tf.costs.profile`` fills the costs in. ``kernels``: the graph follows their use of memory.
    ``fixed``: bytes by purpose.

    Raises:
        DynamicShapeError: the size of a tensor is not known.
        OnlySmallTensorsError: the step computes nothing worth scheduling.
    """
    traced = with_split_loops(traced)
    structure = structure_of(traced, kernels)
    if not structure.heavy:
        raise OnlySmallTensorsError(
            f"the training step of {traced.loaded.name!r} has only small tensors; "
            "there is nothing to rematerialize",
            hint="use a larger batch or input shape",
        )
    kept = frozenset(
        root for tensor in (traced.loss, *traced.predictions) if (root := structure.root(tensor)) is not None
    )
    nodes = clusters_of(structure, kept)
    keys, ops = _nodes(structure, nodes, kept)
    graph = Graph(
        name=traced.loaded.name,
        ops=ops,
        values=tuple(_value(structure, key, key in kept) for key in keys),
        fixed_bytes=sum(fixed.values()),
        fixed=fixed,
        batch_size=traced.loaded.batch_size,
        device=device,
        cost_unit=CostUnit.SECONDS,
        cost_origin=CostOrigin.GIVEN,
        metadata={**metadata, "kernels": kernels.value},
    )
    return FoldedStep(structure, tuple(nodes), tuple(keys), graph)


def regrouped(folded: FoldedStep, nodes: Sequence[tuple[int, ...]]) -> FoldedStep:
    """Return the step with its heavy ops in other nodes, with costs of 0.

    ``nodes``: all of its heavy ops, in a valid order.
    """
    structure, graph = folded.structure, folded.graph
    kept = frozenset(key for key, value in zip(folded.values, graph.values, strict=True) if value.keep)
    keys, ops = _nodes(structure, nodes, kept)
    values = tuple(_value(structure, key, key in kept) for key in keys)
    changed = dataclasses.replace(graph, ops=ops, values=values)
    return FoldedStep(structure, tuple(nodes), tuple(keys), changed)


def _nodes(
    structure: Structure, nodes: Sequence[tuple[int, ...]], kept: frozenset[Key]
) -> tuple[list[Key], tuple[Op, ...]]:
    """Return the keys of values, and the graph's ops, one per node."""
    node_of = {op: node for node, members in enumerate(nodes) for op in members}
    reads: list[list[Key]] = []
    for node, members in enumerate(nodes):
        wanted = [key for op in members for key in structure.inputs(op)]
        reads.append([key for key in dict.fromkeys(wanted) if node_of[key[0]] != node])
    readers = Counter(key for found in reads for key in found)
    writes: list[list[Key]] = [[] for _ in nodes]
    for key in sorted(readers.keys() | kept):
        writes[node_of[key[0]]].append(key)
    keys = [key for found in writes for key in found]
    ids = {key: value for value, key in enumerate(keys)}
    groups = group_names(structure.traced)
    once = frozenset(key for key, count in readers.items() if count == 1 and key not in kept)
    ops = (
        _op(structure, members, read, written, ids, groups, once)
        for members, read, written in zip(nodes, reads, writes, strict=True)
    )
    return keys, tuple(ops)


def _value(structure: Structure, key: Key, keep: bool) -> Value:
    op = structure.ops[key[0]]
    if key[1] == TOKEN:
        return Value(f"{op.name}:done", 0)
    if key[1] == ARGMAX:
        return Value(f"{op.name}:argmax", structure.bytes_of[key])
    tensor = op.outputs[key[1]]
    shape = tuple(tensor.shape.as_list()) if tensor.shape.is_fully_defined() else None
    return Value(tensor.name, structure.bytes_of[key], shape=shape, dtype=tensor.dtype.name, keep=keep)


def _op(
    structure: Structure,
    members: tuple[int, ...],
    read: list[Key],
    writes: list[Key],
    ids: dict[Key, int],
    groups: list[str],
    once: frozenset[Key],
) -> Op:
    leading = max(members, key=lambda op: _weight(structure, op))
    types = list(dict.fromkeys(structure.ops[op].type for op in members))
    written = set(writes)
    held, pairs = _replay_members(structure, members, written, read)
    again = all(recomputable(structure.ops[op]) for op in members)
    if not again and not pairs:
        # An op that runs once and is the only reader of a value always frees it, so that room is surely free.
        held = _peak_inside(structure, members, written, frozenset(read) & once)
    return Op(
        name=structure.ops[leading].name,
        type="+".join(types[:4]) + ("+…" if len(types) > 4 else ""),
        phase=structure.phase(members[0]),
        group=groups[leading],
        cost=0.0,
        workspace_bytes=max(0, held - sum(structure.bytes_of.get(key, 0) for key in written)),
        recomputable=again,
        inputs=tuple(ids[key] for key in read),
        outputs=tuple(ids[key] for key in writes),
        takes_over=tuple((ids[output], ids[over]) for output, over in pairs),
    )


def _weight(structure: Structure, op: int) -> tuple[bool, int, int]:
    # A loop says most of its node, then what makes the largest tensor.
    largest = max((structure.bytes_of[key] for key in structure.outputs(op)), default=0)
    return is_loop(structure.ops[op]), largest, -op


def _replay_members(
    structure: Structure, members: tuple[int, ...], written: set[Key], read: list[Key]
) -> tuple[int, list[tuple[Key, Key]]]:
    """Return the most bytes that a node holds at once beside its inputs, and its reuse pairs.

    A pair (output, input) says that the output can be written over the input.
    """
    held = _peak_inside(structure, members, written, frozenset())
    pairs: list[tuple[Key, Key]] = []
    for key in read:
        size = structure.bytes_of.get(key, 0)
        same = [output for output in sorted(written) if structure.bytes_of.get(output) == size and size > 0]
        if same and _peak_inside(structure, members, written, frozenset({key})) + size <= held:
            pairs.extend((output, key) for output in same)
    return held, pairs


def _peak_inside(
    structure: Structure, members: tuple[int, ...], written: set[Key], dying: frozenset[Key]
) -> int:
    """Return the most bytes that the node's members have allocated at once.

    An input in ``dying`` frees its bytes at its last reader. Outputs in ``written`` stay to the end.
    Element-wise ops write over an input of the node's own that dies with them. A list that a loop was given
    lives on in a list that the loop returns.
    """
    last_reader = {key: op for op in members for key in structure.direct_inputs(op)}
    live = 0
    peak = 0
    for op in members:
        allocated = {key: structure.bytes_of[key] for key in structure.outputs(op)}
        ending = [
            key
            for key in structure.direct_inputs(op)
            if last_reader[key] == op and key not in written and (key[0] in members or key in dying)
        ]
        reused = _reused(structure, op, members, ending)
        reused += sum(size for key, size in allocated.items() if structure.given.get(key) in ending)
        live += sum(allocated.values())
        peak = max(peak, live - reused + structure.scratch.get(op, 0))
        live -= sum(structure.bytes_of[key] for key in ending)
        unread = [key for key in allocated if key not in written and key not in last_reader]
        live -= sum(allocated[key] for key in unread)
    return peak


def _reused(structure: Structure, op: int, members: tuple[int, ...], ending: list[Key]) -> int:
    """Return the bytes of ``op`` that it writes over an input in ``ending``."""
    over_logits = structure.ops[op].type in GRADIENT_OVER_LOGITS
    if not (over_logits or structure.takes_over(op)):
        return 0
    size = structure.bytes_of[op, int(over_logits)]
    if over_logits or scaled_next(structure, op, members):
        first = structure.root(structure.ops[op].inputs[0])
        ending = [key for key in ending if key == first]
    return next((size for key in ending if structure.bytes_of[key] == size), 0)


def scaled_next(structure: Structure, op: int, members: tuple[int, ...]) -> bool:
    """Return whether a product of two tensors is then scaled by a constant, as in GELU's gradient.

    TensorFlow then scales the *first* factor before it multiplies, so only that one's buffer can be written
    over.
    """
    if structure.ops[op].type != "Mul" or len(structure.direct_inputs(op)) != 2:
        return False
    readers = [other for other in members if (op, 0) in structure.direct_inputs(other)]
    return (
        len(readers) == 1
        and structure.ops[readers[0]].type == "Mul"
        and any(tensor.op.type == "Const" for tensor in structure.ops[readers[0]].inputs)
    )
