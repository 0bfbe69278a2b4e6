"""Fold what XLA will fuse into one op of the graph.

A value inside a fusion gets no buffer: a text network within 45 % of its temporaries took 11 % more time
where each such value was planned by itself, and 2 % more where it was not. XLA decides for itself; this is a
guess that comes near, and what it gets wrong is corrected by what the compiled step takes. An op joins its
only reader, where XLA puts it into the loop that computes that. So does what adds up something for a reader
that reads the same again, such as a gradient of batch normalization: to have one of them alone gains nothing.
What several read stays a value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import tensorflow as tf
from networkx.utils import UnionFind

from checkmate.backends.tf.trace.clusters import ordered_clusters
from checkmate.backends.tf.trace.coarsen import FoldedStep, regrouped
from checkmate.backends.tf.trace.dataflow import TOKEN, Key, Structure
from checkmate.backends.tf.trace.op_kinds import (
    ELEMENTWISE_TYPES,
    GRADIENT_OVER_LOGITS,
    LIGHT_BYTES,
    REDUCTIONS,
)
from checkmate.ir.graph import Graph, Phase

_SUMS = REDUCTIONS | {"BiasAddGrad"}
_OF_ROWS = frozenset({"Softmax", "LogSoftmax"})  # each element is of a whole row
_MOVED = frozenset(
    {"BroadcastTo", "Tile", "Fill", "Pad", "PadV2", "Slice", "StridedSlice", "ConcatV2", "Pack", "Transpose"}
)


def fused(folded: FoldedStep) -> FoldedStep:
    """Return the step with fusions as ops of its graph, with costs of 0."""
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
    """Return ``graph``, that of ``folded`` with costs, without scratch for what passes between loops.

    What an op holds by itself was counted as TensorFlow's executor holds it. XLA holds between nothing and
    that, so what is solved on this graph may take more than it requests. None: no op has such scratch.
    """
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
    """Yield what loops alone make and read, inside of one op."""
    structure, values = folded.structure, frozenset(folded.values)
    for members in folded.nodes:
        made = {key for op in members for key in structure.outputs(op)} - values
        inside = made.intersection(key for op in members for key in structure.direct_inputs(op))
        for op in members:
            if not _reads_in_loop(structure.ops[op]):
                inside.difference_update(structure.outputs(op), structure.direct_inputs(op))
        yield from inside


def _last_of_fusions(folded: FoldedStep) -> list[int]:
    """Return for each node the node that ends its fusion."""
    readers, last = _readers(folded), list(range(folded.graph.n))
    nodes = [[node] for node in last]  # of each fusion, by its end
    read = [set(op.inputs) for op in folded.graph.ops]
    changed = True
    while changed:  # what a fusion reads tells what else joins it
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
    """Return whether XLA puts all that ``node`` writes into its reader's loop. ``read``: by its fusion."""
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
    """Return whether ``members`` that read ``key`` compute it themselves."""
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
