"""Recognise a graph from a file as the step just traced.

The kernels of a device decide which op takes scratch space, keeps positions for its gradient or writes over
an input. So the same step has another fingerprint on another device. Its ops and tensors are the same ones. A
schedule is an order of these ops, so it holds there too. Only the memory it needs has to be worked out again.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from checkmate.backends.tf.allocator.learn import step_fingerprint
from checkmate.errors import OtherStepError
from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.ir.schedule import Schedule
from checkmate.memory.check import check

_COST_METADATA = ("profile",)  # metadata about costs, kept from the file; the rest is of the step just traced


def for_traced_step(
    traced: Graph, graph: Graph, result: SolveResult
) -> tuple[Graph, SolveResult, tuple[str, ...]]:
    """Return ``graph`` and ``result`` for the step ``traced``, with notes.

    The notes say what changed. Both come back as they are if ``graph`` describes that very step. If only
    rules differ, the graph has the rules of ``traced`` and the costs of ``graph``, and the schedule has the
    same steps; what was proved of its cost is left out.

    Raises:
        OtherStepError: the ops or their tensors differ.
    """
    if traced.fingerprint == step_fingerprint(graph):
        return graph, result, ()
    steps = result.require_schedule().steps.tolist()
    if _computed(traced) != _computed(graph):
        raise _other_step(traced, graph, result)
    carried = _with_costs_of(traced, graph)
    found = check(carried, steps)
    if not found.ok:
        raise _other_step(traced, graph, result)
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
    """Return what each op computes: its type, phase and the tensors it writes.

    Tensors that only kernels know have no shape and do not count.
    """
    return tuple(
        (
            op.type,
            op.phase,
            tuple((v.shape, v.dtype, v.keep) for v in map(graph.values.__getitem__, op.outputs) if v.shape),
        )
        for op in graph.ops
    )


def _rules(graph: Graph, op: int) -> tuple[Any, ...]:
    """Return how op number ``op`` uses memory. The terms do not depend on how values are numbered."""
    entry = graph.ops[op]
    sizes = sorted(graph.values[value].bytes for value in entry.outputs)
    over = sorted(graph.values[value].name for pair in entry.takes_over for value in pair)
    return entry.workspace_bytes, entry.recomputable, sizes, over


def _with_costs_of(traced: Graph, graph: Graph) -> Graph:
    ops = tuple(dataclasses.replace(op, cost=old.cost) for op, old in zip(traced.ops, graph.ops, strict=True))
    known = {name: graph.metadata[name] for name in _COST_METADATA if name in graph.metadata}
    return dataclasses.replace(
        traced,
        ops=ops,
        cost_unit=graph.cost_unit,
        cost_origin=graph.cost_origin,
        metadata={**traced.metadata, **known},
    )


def _other_step(traced: Graph, graph: Graph, result: SolveResult) -> OtherStepError:
    return OtherStepError(
        found=step_fingerprint(graph),
        expected=traced.fingerprint,
        graph_name=traced.name,
        model=str(traced.metadata.get("request", {}).get("model", traced.name)),
        batch_size=traced.batch_size,
        budget_bytes=result.budget_bytes,
    )
