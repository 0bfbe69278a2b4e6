"""Fold the traced step into the graph that is scheduled, whose memory is exact.

A node is a cluster of heavy ops (``backends.tf.trace.clusters``). A value is a heavy output that another node
reads, or that leaves the step. What a node allocates and frees by itself is its workspace; it is found by
replaying the node's ops."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import tensorflow as tf
from networkx.utils import UnionFind

from checkmate.backends.tf.devices import Kernels
from checkmate.backends.tf.trace.calls import without_calls
from checkmate.backends.tf.trace.clusters import clusters_of, ordered_clusters
from checkmate.backends.tf.trace.dataflow import ARGMAX, TOKEN, Key, Structure, structure_of
from checkmate.backends.tf.trace.layers import group_names
from checkmate.backends.tf.trace.loops import is_loop
from checkmate.backends.tf.trace.op_kinds import (
    ELEMENTWISE_TYPES,
    GRADIENT_OVER_LOGITS,
    LIGHT_BYTES,
    REDUCTIONS,
    recomputable,
)
from checkmate.backends.tf.trace.split_loops import with_split_loops
from checkmate.backends.tf.trace.trace import TracedStep
from checkmate.errors import OnlySmallTensorsError, TraceError
from checkmate.ir import CostOrigin, CostUnit, Device, Graph, Op, Phase, Value


@dataclass(frozen=True, eq=False)
class FoldedStep:
    """A traced step and its graph. ``nodes``: per op of the graph, the trace indices of its heavy ops.
    ``values``: per value of the graph, its key. ``in_turn``: emit it so that neither steps nor loop
    iterations run side by side, and the memory measured for an op is its own."""

    structure: Structure
    nodes: tuple[tuple[int, ...], ...]
    values: tuple[Key, ...]
    graph: Graph
    in_turn: bool = False

    def __post_init__(self) -> None:
        for members, op in zip(self.nodes, self.graph.ops, strict=True):
            computed = {made for value in op.inputs for made in self.nodes[self.graph.producer[value]]}
            for member in members:
                missing = self.structure.computed_before[member] - computed
                if missing:
                    raise _not_in_order(self.structure, member, min(missing))
                computed.add(member)

    @property
    def traced(self) -> TracedStep:
        return self.structure.traced

    @cached_property
    def node_of(self) -> dict[int, int]:
        return {op: node for node, members in enumerate(self.nodes) for op in members}


def _not_in_order(structure: Structure, op: int, missing: int) -> TraceError:
    ops, name = structure.ops, structure.traced.loaded.name
    return TraceError(
        f"in the training step of {name!r} {ops[op].name!r} needs {ops[missing].name!r} "
        "in a way that no schedule would keep",
        hint="please report the step: this is a fault of checkmate",
    )


def fold(
    traced: TracedStep, kernels: Kernels, *, fixed: dict[str, int], device: Device, metadata: dict[str, Any]
) -> FoldedStep:
    """Return the graph of ``traced``, which follows the use of memory of ``kernels``, with costs of 0.
    ``metadata``: its ``notes`` come after those of the step."""
    traced = with_split_loops(without_calls(traced))
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
        metadata={**metadata, "notes": [*traced.notes, *metadata.get("notes", ())], "kernels": kernels.value},
    )
    return FoldedStep(structure, tuple(nodes), tuple(keys), graph)


def regrouped(folded: FoldedStep, nodes: Sequence[tuple[int, ...]]) -> FoldedStep:
    """Return the step with all its heavy ops in ``nodes``, which are in a valid order; costs are 0."""
    structure, graph = folded.structure, folded.graph
    kept = frozenset(key for key, value in zip(folded.values, graph.values, strict=True) if value.keep)
    keys, ops = _nodes(structure, nodes, kept)
    values = tuple(_value(structure, key, key in kept) for key in keys)
    changed = dataclasses.replace(graph, ops=ops, values=values)
    return FoldedStep(structure, tuple(nodes), tuple(keys), changed)


def _nodes(
    structure: Structure, nodes: Sequence[tuple[int, ...]], kept: frozenset[Key]
) -> tuple[list[Key], tuple[Op, ...]]:
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
        # A node that runs once always frees the values that only it reads, so their bytes are reused.
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
    # A node is named after its loop, if it has one, else after the op with the largest output.
    largest = max((structure.bytes_of[key] for key in structure.outputs(op)), default=0)
    return is_loop(structure.ops[op]), largest, -op


def _replay_members(
    structure: Structure, members: tuple[int, ...], written: set[Key], read: list[Key]
) -> tuple[int, list[tuple[Key, Key]]]:
    """Return the most bytes held besides the inputs, and (output, input) pairs that may share a buffer."""
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
    """Return the most bytes that the node's members have allocated at once. An input in ``dying`` frees its
    bytes at its last reader. Outputs in ``written`` stay to the end. A list that a loop was given lives on in
    a list that the loop returns."""
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
        number, candidates = written_over(structure, op, members)
        size = structure.bytes_of.get((op, number), 0)
        reused = size if any(key in ending and structure.bytes_of[key] == size for key in candidates) else 0
        reused += sum(size for key, size in allocated.items() if structure.given.get(key) in ending)
        live += sum(allocated.values())
        peak = max(peak, live - reused + structure.scratch.get(op, 0))
        live -= sum(structure.bytes_of[key] for key in ending)
        unread = [key for key in allocated if key not in written and key not in last_reader]
        live -= sum(allocated[key] for key in unread)
    return peak


def written_over(structure: Structure, op: int, members: tuple[int, ...]) -> tuple[int, list[Key]]:
    """Return an output's number, and the inputs that it may be written over if they die with ``op``."""
    over_logits = structure.ops[op].type in GRADIENT_OVER_LOGITS
    inputs = structure.direct_inputs(op) if over_logits or structure.takes_over(op) else []
    if over_logits or _scaled_next(structure, op, members):
        first = structure.root(structure.ops[op].inputs[0])
        inputs = [key for key in inputs if key == first]
    return int(over_logits), inputs


def _scaled_next(structure: Structure, op: int, members: tuple[int, ...]) -> bool:
    """Return whether a product of two tensors is scaled by a constant next, as in GELU's gradient. TensorFlow
    rewrites that to scale the *first* factor before the product, so only that factor's buffer is reused."""
    if structure.ops[op].type != "Mul" or len(structure.direct_inputs(op)) != 2:
        return False
    readers = [other for other in members if (op, 0) in structure.direct_inputs(other)]
    return (
        len(readers) == 1
        and structure.ops[readers[0]].type == "Mul"
        and any(tensor.op.type == "Const" for tensor in structure.ops[readers[0]].inputs)
    )


_SUMS = REDUCTIONS | {"BiasAddGrad"}
_OF_ROWS = frozenset({"Softmax", "LogSoftmax"})  # each element is of a whole row
_MOVED = frozenset(
    {"BroadcastTo", "Tile", "Fill", "Pad", "PadV2", "Slice", "StridedSlice", "ConcatV2", "Pack", "Transpose"}
)


def fused(folded: FoldedStep) -> FoldedStep:
    """Return the step with the fusions that XLA is expected to make as the ops of its graph; costs are 0.

    A value inside a fusion has no buffer: a text network within 45 % of its temporaries took 11 % more time
    with such values in the graph, and 2 % more without. An op joins its only reader if XLA computes both in
    one loop. A sum joins a reader that reads the sum's input again, because recomputing only one of the two
    would save nothing."""
    structure = folded.structure
    union = UnionFind(structure.heavy)
    for members, last in zip(folded.nodes, _last_of_fusions(folded), strict=True):
        for member in (*members, folded.nodes[last][0]):
            union.union(members[0], member)
    return _without_reuse(regrouped(folded, ordered_clusters(structure, union)))


def _without_reuse(folded: FoldedStep) -> FoldedStep:
    # TensorFlow's kernel writes the gradient over its logits. XLA reads the logits again, for the loss: a
    # GPT's schedule took all of them more than was planned.
    structure = folded.structure
    changed = tuple(
        dataclasses.replace(op, takes_over=())
        if any(structure.ops[member].type in GRADIENT_OVER_LOGITS for member in members)
        else op
        for op, members in zip(folded.graph.ops, folded.nodes, strict=True)
    )
    return dataclasses.replace(folded, graph=dataclasses.replace(folded.graph, ops=changed))


def loose(folded: FoldedStep, graph: Graph) -> Graph | None:
    """Return ``graph`` (of ``folded``, with costs) without scratch for values passed between loops; None if
    it has none. XLA holds anything between nothing and what TensorFlow's executor holds for these values, so
    a compiled schedule may take more than this graph says."""
    structure = folded.structure
    passing = dict.fromkeys(_passing(folded), 0)
    lighter = dataclasses.replace(structure, bytes_of={**structure.bytes_of, **passing})
    counted = regrouped(dataclasses.replace(folded, structure=lighter), folded.nodes).graph.ops
    ops = tuple(
        dataclasses.replace(op, workspace_bytes=min(op.workspace_bytes, less.workspace_bytes))
        for op, less in zip(graph.ops, counted, strict=True)
    )
    return None if ops == graph.ops else dataclasses.replace(graph, ops=ops)


def _passing(folded: FoldedStep) -> Iterator[Key]:
    """Yield the values that are both written and read only by loops inside one node."""
    structure, values = folded.structure, frozenset(folded.values)
    for members in folded.nodes:
        made = {key for op in members for key in structure.outputs(op)} - values
        inside = made.intersection(key for op in members for key in structure.direct_inputs(op))
        for op in members:
            if not _reads_in_loop(structure.ops[op]):
                inside.difference_update(structure.outputs(op), structure.direct_inputs(op))
        yield from inside


def _last_of_fusions(folded: FoldedStep) -> list[int]:
    readers, last = _readers(folded), list(range(folded.graph.n))
    nodes = [[node] for node in last]  # fusion's last node → its nodes
    read = [set(op.inputs) for op in folded.graph.ops]
    changed = True
    while changed:  # repeat, since an op that joins a fusion adds reads, by which further ops may join
        changed = False
        for node in reversed(range(folded.graph.n)):
            ends = {last[reader] for reader in readers[node]}
            if last[node] != node or len(ends) != 1:
                continue
            end = ends.pop()
            if all(_joins(folded, node, reader, read[end]) for reader in readers[node]):
                changed = True
                for each in nodes[node]:
                    last[each] = end
                nodes[end] += nodes[node]
                read[end] |= read[node]
    return last


def _readers(folded: FoldedStep) -> list[set[int]]:
    found: list[set[int]] = [set() for _ in folded.nodes]
    for reader, op in enumerate(folded.graph.ops):
        for value in op.inputs:
            found[folded.node_of[folded.values[value][0]]].add(reader)
    return found


def _joins(folded: FoldedStep, node: int, reader: int, read: set[int]) -> bool:
    """Return whether XLA fuses all outputs of ``node`` into its reader's loop, which also reads ``read``."""
    graph, structure = folded.graph, folded.structure
    op, other = graph.ops[node], graph.ops[reader]
    if Phase.UPDATE in (op.phase, other.phase) or op.recomputable is not other.recomputable:
        return False
    if any(graph.values[value].keep for value in op.outputs):
        return False
    small = all(graph.values[value].bytes < LIGHT_BYTES for value in op.outputs)
    if op.phase is other.phase and op.outputs and small:  # sums, mostly
        return not read.isdisjoint(op.inputs)
    members = folded.nodes[reader]
    return all(_is_fused_into(structure, folded.values[value], members) for value in op.outputs)


def _is_fused_into(structure: Structure, key: Key, members: Iterable[int]) -> bool:
    if key[1] == TOKEN:
        return True
    if not _is_fused(structure.ops[key[0]]):
        return False
    reading = [structure.ops[member] for member in members if key in structure.direct_inputs(member)]
    return all(_reads_in_loop(op) for op in reading)


def _is_fused(op: tf.Operation) -> bool:
    return op.type in _MOVED or (op.type in ELEMENTWISE_TYPES and op.type not in _OF_ROWS)


def _reads_in_loop(op: tf.Operation) -> bool:
    return _is_fused(op) or op.type in _SUMS
