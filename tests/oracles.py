"""The exact optimum on tiny plain graphs, by shortest path over every state a schedule can be in."""

from __future__ import annotations

import heapq
import itertools

from checkmate.ir.graph import Graph


def optimum(graph: Graph, budget_bytes: int, *, given_order: bool = False) -> float | None:
    """The least cost of any schedule within the budget; None where there is none.

    A state is (ops that have run, values that are held). ``given_order``: an op may run for the first time only after all
    ops before it. For graphs without views and take-overs, of at most about eight values.
    """
    assert not any(op.takes_over for op in graph.ops) and all(v.alias_of is None for v in graph.values)
    produced = frozenset(v for op in graph.ops for v in op.outputs)
    kept = frozenset(v for v in produced if graph.values[v].keep)
    start = (frozenset[int](), frozenset[int]())
    best = {start: 0.0}
    counter = itertools.count()
    heap = [(0.0, next(counter), start)]
    while heap:
        cost, _, state = heapq.heappop(heap)
        if cost > best[state]:
            continue
        done, held = state
        if len(done) == graph.n and kept <= held:
            return cost
        for index, op in enumerate(graph.ops):
            inputs = frozenset(op.inputs) & produced
            if not inputs <= held or (index in done and not op.recomputable):
                continue
            if given_order and index not in done and index != len(done):
                continue
            after_done = done | {index}
            # Drop anything first: every subset of what is held that still feeds the op.
            spare = sorted(held - inputs - set(op.outputs))
            for size in range(len(spare) + 1):
                for dropped in itertools.combinations(spare, size):
                    live = (held - set(dropped)) | set(op.outputs)
                    used = graph.fixed_bytes + op.workspace_bytes + sum(graph.values[v].bytes for v in live)
                    if used > budget_bytes:
                        continue
                    _relax(best, heap, counter, cost + op.cost, (after_done, live))
        for value in held:
            _relax(best, heap, counter, cost, (done, held - {value}))
    return None


def _relax(best: dict, heap: list, counter: itertools.count, cost: float, state: tuple) -> None:
    if cost < best.get(state, float("inf")) - 1e-12:
        best[state] = cost
        heapq.heappush(heap, (cost, next(counter), state))
