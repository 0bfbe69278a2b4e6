from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkmate.errors import BudgetBelowMinimumError
from checkmate.ir import Graph, SolveResult, SolveStatus
from checkmate.solvers.certify import without_schedule
from checkmate.solvers.graph_sets import closures, forced_across, members
from checkmate.solvers.problem import Problem
from checkmate.units import format_bytes_apart


@dataclass(frozen=True)
class WorkingSet:
    """The least memory that some op needs by itself, fixed bytes included.

    ``values``: those that are live together. ``at_end``: they are the kept values at the end, and ``op``
    makes the last of them.
    """

    bytes: int
    op: int
    values: tuple[int, ...]
    at_end: bool = False


def working_set_bound(graph: Graph) -> WorkingSet:
    """Return the largest need of a single op, a lower bound on every peak, in any order.

    An op needs its workspace and one buffer per distinct owner among its inputs and outputs, less the most
    that its outputs can take over. The same holds for what must be live at the end.
    """
    size, best = graph.value_bytes.tolist(), _kept_at_end(graph)
    for index, op in enumerate(graph.ops):
        owners = _counted_owners(graph, (*op.inputs, *op.outputs))
        most = graph.fixed_bytes + op.workspace_bytes + sum(size[value] for value in owners)
        if most <= best.bytes and not (most == best.bytes and best.at_end):
            continue
        need = most - taken_over_at_most(graph, index)
        if need > best.bytes or (need == best.bytes and best.at_end):
            best = WorkingSet(need, index, _largest_first(graph, owners))
    return best


def _counted_owners(graph: Graph, values: Iterable[int]) -> set[int]:
    owners = {int(graph.owner[value]) for value in values}
    return {owner for owner in owners if graph.producer[owner] >= 0}


def _largest_first(graph: Graph, owners: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(owners, key=lambda value: (-int(graph.value_bytes[value]), value)))


@dataclass(frozen=True)
class OpNeed:
    """What must be in memory together while one op runs.

    ``read``, ``made``, ``held``: the owners of the buffers that it reads, makes, and that are live anyway,
    largest first. ``bytes``: the sum, less ``taken_over_bytes``, fixed bytes included.
    """

    op: int
    read: tuple[int, ...]
    made: tuple[int, ...]
    held: tuple[int, ...]
    workspace_bytes: int
    fixed_bytes: int
    taken_over_bytes: int
    bytes: int


def op_need(graph: Graph, index: int, live: Iterable[int] = ()) -> OpNeed:
    """The bytes that the op needs, by part, with ``live`` values held across it."""
    op = graph.ops[index]
    made = _counted_owners(graph, op.outputs)
    read = _counted_owners(graph, op.inputs) - made
    held = {value for value in live if graph.producer[value] >= 0} - made - read
    parts = [_largest_first(graph, values) for values in (read, made, held)]
    taken = taken_over_at_most(graph, index)
    total = graph.fixed_bytes + op.workspace_bytes - taken
    total += sum(graph.values[value].bytes for part in parts for value in part)
    return OpNeed(index, parts[0], parts[1], parts[2], op.workspace_bytes, graph.fixed_bytes, taken, total)


def below_minimum(graph: Graph, budget_bytes: int) -> BudgetBelowMinimumError | None:
    """Return the error for a budget below the working set, or None."""
    need = working_set_bound(graph)
    if budget_bytes >= need.bytes:
        return None
    return BudgetBelowMinimumError(
        budget=budget_bytes,
        needed=need.bytes,
        op=graph.ops[need.op].name,
        values=tuple(graph.values[value].name for value in need.values),
        at_end=need.at_end,
    )


def below_working_set(problem: Problem, solver: str) -> SolveResult | None:
    """Return INFEASIBLE if the budget is below some op's own need, in any order; else None."""
    error = below_minimum(problem.graph, problem.budget_bytes)
    if error is None:
        return None
    return without_schedule(problem, solver, SolveStatus.INFEASIBLE, str(error), seconds=0.0)


def _kept_at_end(graph: Graph) -> WorkingSet:
    producer = graph.producer
    kept = [value for value in range(graph.m) if graph.keep[value] and producer[value] >= 0]
    owners = _largest_first(graph, _counted_owners(graph, kept))
    total = graph.fixed_bytes + sum(graph.values[value].bytes for value in owners)
    return WorkingSet(total, max((int(producer[v]) for v in kept), default=0), owners, at_end=True)


def taken_over_at_most(graph: Graph, index: int) -> int:
    """Return the most bytes that the op's outputs can take over: the best matching of outputs to inputs.

    Buffers that differ only in which production of one owner they hold are counted once in the need, so at
    most one of them is matched: a second one would be live in addition.
    """
    producer, owner, size = graph.producer, graph.owner, graph.value_bytes
    choices: dict[int, list[int]] = {}
    for output, read in graph.ops[index].takes_over:
        old, new = int(owner[read]), int(owner[output])
        if producer[old] >= 0 and old != new and size[old] == size[new]:
            choices.setdefault(output, []).append(old)
    taker: dict[int, int] = {}

    def find(output: int, tried: set[int]) -> bool:
        for old in choices[output]:
            if old not in tried:
                tried.add(old)
                if old not in taker or find(taker[old], tried):
                    taker[old] = output
                    return True
        return False

    # Largest first: the inputs that can be matched form a matroid, so this greedy choice is a heaviest
    # matching.
    for output in sorted(choices, key=lambda v: -int(size[owner[v]])):
        find(output, set())
    return sum(int(size[old]) for old in taker)


def run_once_bound(graph: Graph) -> WorkingSet:
    """Return the most bytes that some op needs, with those held across it: a bound on every schedule's peak.

    The outputs of an op that runs once must be held from their first to their last use. Let u be made by such
    an op, which comes before k (or is k), and let some op that reads u, or a view in its buffer, come after k
    (or be k). Then in every schedule u's one buffer is live at k's first run: its maker has run, and that
    reader's first run is still to come (or is this step). So k needs those buffers beside its own.
    """
    best = working_set_bound(graph)
    if graph.recomputable.all():
        return best
    held = _held_across(graph)
    size = graph.value_bytes
    standing = sum((size[value] * across for value, across in held.items()), np.zeros(graph.n, np.int64))
    for index in range(graph.n):
        own = _counted_owners(graph, (*graph.ops[index].inputs, *graph.ops[index].outputs))
        extra = {value for value in own if value not in held or not held[value][index]}
        most = graph.fixed_bytes + int(graph.workspace_bytes[index] + standing[index])
        most += sum(int(size[value]) for value in extra)
        if most <= best.bytes:
            continue
        need = most - taken_over_at_most(graph, index)
        if need > best.bytes:
            owners = extra.union(value for value, across in held.items() if across[index])
            best = WorkingSet(need, index, _largest_first(graph, owners))
    return best


def explain_below_bound(graph: Graph, budget_bytes: int, need: WorkingSet) -> str:
    names = [graph.values[value].name for value in need.values]
    held = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
    given, least = format_bytes_apart(budget_bytes, need.bytes)
    op = graph.ops[need.op].name
    return f"budget {given} is below the {least} that are held while op {op!r} runs (with {held})"


def _held_across(graph: Graph) -> dict[int, NDArray[np.bool_]]:
    """Per owner of a buffer made once, bool[n]: whether every schedule holds it while the op first runs."""
    return {
        owner: members(across, graph.n)
        for owner, across in forced_across(graph, *closures(graph)).items()
        if graph.value_bytes[owner] and not graph.recomputable[graph.producer[owner]]
    }
