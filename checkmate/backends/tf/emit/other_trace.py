"""Use a schedule for another trace of the same step: from a file, from another device, at another size.

Kernels decide how ops use memory, so the step has another fingerprint there. An order of its ops still holds.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from checkmate.backends.tf.allocator.learn import step_fingerprint
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.errors import OtherStepError, TraceError
from checkmate.ir import Graph, Schedule, SolveResult, SolveStatus
from checkmate.memory.check import check


def for_traced_step(
    traced: Graph, graph: Graph, result: SolveResult
) -> tuple[Graph, SolveResult, tuple[str, ...]]:
    """Return ``graph`` and ``result`` for the step ``traced``, with notes of what changed.

    If only rules differ, the graph has the rules of ``traced`` and the costs of ``graph``, and the schedule
    the same steps; what was proved of its cost is left out. An OtherStepError: the ops or tensors differ.
    """
    if traced.fingerprint == step_fingerprint(graph):
        return graph, result, ()
    steps = result.require_schedule().steps.tolist()
    same_ops = _computed(traced) == _computed(graph)
    carried = _with_costs_of(traced, graph) if same_ops else traced
    found = check(carried, steps)
    if not same_ops or not found.ok:
        raise OtherStepError(
            found=step_fingerprint(graph),
            expected=traced.fingerprint,
            graph_name=traced.name,
            model=str(traced.origin.request.get("model", traced.name)),
            batch_size=traced.batch_size,
            budget_bytes=result.budget_bytes,
        )
    changed = sum(_rules(carried, op) != _rules(graph, op) for op in range(carried.n))
    note = (
        "the graph was made on another device or with other kernels: the step was traced again, "
        f"{changed} of {carried.n} ops use memory differently here, and the schedule's order was kept"
    )
    moved = dataclasses.replace(
        result,
        status=SolveStatus.FEASIBLE,
        schedule=Schedule.of(carried, steps),
        cost=found.cost,
        base_cost=found.base_cost,
        peak_bytes=found.peak_bytes,
        lower_bound=None,
    )
    return carried, moved, (note,)


def _computed(graph: Graph) -> tuple[Any, ...]:
    # Tensors that only kernels know have no shape and do not count.
    return tuple(
        (
            op.type,
            op.phase,
            tuple((v.shape, v.dtype, v.keep) for v in map(graph.values.__getitem__, op.outputs) if v.shape),
        )
        for op in graph.ops
    )


def _rules(graph: Graph, op: int) -> tuple[Any, ...]:
    entry = graph.ops[op]
    sizes = sorted(graph.values[value].bytes for value in entry.outputs)
    over = sorted(graph.values[value].name for pair in entry.takes_over for value in pair)
    return entry.workspace_bytes, entry.recomputable, sizes, over


def _with_costs_of(traced: Graph, graph: Graph) -> Graph:
    """Return ``traced`` with the costs of ``graph``, and with its metadata about them."""
    known = {name: said for name, said in graph.metadata.items() if name == "profile"}
    costed = traced.with_costs((op.cost for op in graph.ops), graph.cost_unit, graph.cost_origin)
    return dataclasses.replace(costed, metadata={**traced.metadata, **known})


# At another size the ops are the same, one by one. How they are folded into nodes may differ: a tensor that
# is large in one trace may be small in the other.
def op_types(folded: FoldedStep) -> list[str]:
    return [str(op.type) for op in folded.structure.ops]


def moved_steps(
    steps: Sequence[int], nodes: Sequence[Sequence[int]], types: Sequence[str], folded: FoldedStep
) -> list[int]:
    """Return the nodes of ``folded`` in the order of another trace's schedule.

    ``steps``: the other trace's schedule; ``nodes``: its folding (ops per node); ``types``: its ops' types.
    A node runs as often as its last op does there. Inputs that were not computed yet are computed before it,
    so the order is valid even if the foldings differ. Raises a TraceError if the ops' types differ.
    """
    if list(types) != op_types(folded):
        raise TraceError(
            f"the step of {folded.graph.name!r} is not the same at batch {folded.graph.batch_size}",
            hint="gradients can only be compared at batch sizes that are traced alike",
        )
    graph = folded.graph
    place = {op: node for node, members in enumerate(nodes) for op in members}
    there: dict[int, list[int]] = defaultdict(list)  # node of the other trace → nodes of this one
    for node, members in enumerate(folded.nodes):
        known = [place[op] for op in members if op in place]
        if known:
            there[known[-1]].append(node)
    found: list[int] = []
    done: set[int] = set()

    def run(node: int) -> None:
        if node in done and not graph.ops[node].recomputable:
            return
        waiting = [node]
        while waiting:
            makers = {int(graph.producer[value]) for value in graph.ops[waiting[-1]].inputs}
            missing = sorted(maker for maker in makers if maker >= 0 and maker not in done)
            if missing:
                waiting.append(missing[-1])
            else:
                done.add(waiting[-1])
                found.append(waiting.pop())

    for step in steps:
        for node in there[step]:
            run(node)
    for node in range(graph.n):
        if node not in done:
            run(node)
    return found
