"""Turn what is retained into a sequence of steps, in the given order.

What is missing is recomputed by the smallest chain that leads to it, so the resulting R is the least one for
the retention (Jain et al., algorithm 2).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.ir import Graph, Phase


def forward_end(graph: Graph) -> int:
    """The index after the last forward or loss op."""
    return (
        max((i for i, op in enumerate(graph.ops) if op.phase in (Phase.FORWARD, Phase.LOSS)), default=-1) + 1
    )


def is_forward_chain(graph: Graph) -> bool:
    """Whether every forward op reads only the op before it."""
    rows = graph.predecessors.lists()
    return all(rows[op] == [op - 1] for op in range(1, forward_end(graph))) and forward_end(graph) > 0


def articulation_points(graph: Graph) -> list[int]:
    """Return the forward ops that no forward dependency reaches over.

    All ops after such an op depend on the ops before it through that op alone. The paper takes the cut
    vertices of the *undirected* forward graph (Jain et al., appendix B.1). Those are more: a vertex with a
    dead-end branch, or one of two independent inputs, is a cut vertex although later ops do not all depend on
    it. In a connected graph with one source, the points here are the cut vertices that separate past from
    future.
    """
    end = forward_end(graph)
    reach = [
        max((reader for reader in row if reader < end), default=op)
        for op, row in enumerate(graph.successors.lists()[:end])
    ]
    points: list[int] = []
    furthest = -1
    for op in range(end):
        if furthest <= op:
            points.append(op)
        furthest = max(furthest, reach[op])
    return points


def must_run_once(graph: Graph, *, recompute_gradients: bool) -> NDArray[np.bool_]:
    """bool[n]: whether the graph or the option forbids a second run."""
    once = ~graph.recomputable
    if not recompute_gradients:
        once = once | graph.late
    return once


def steps_with_checkpoints(graph: Graph, held_at: Mapping[int, Collection[int]]) -> list[int]:
    """Return the forward pass once, then the later ops, recomputing for them.

    ``held_at[op]``: the forward ops whose outputs are still held when the later op ``op`` starts; nothing is
    dropped where it has no entry. Ops that may run only once, and later ops, are always held.
    """
    end = forward_end(graph)
    sources = graph.predecessors.lists()
    always = {op for op in range(graph.n) if op >= end or not graph.recomputable[op]}
    steps = list(range(end))
    available = set(range(end))  # the forward ops whose outputs are live
    before: Collection[int] | None = None
    fresh: set[int] = set()  # the ops made available since the last drop
    for op in range(end, graph.n):
        held = held_at.get(op)
        if held is not None:
            # What was available at the last drop is held. Unless that set has changed, only what is new can
            # be dropped.
            dropped = fresh if held is before else set(available)
            available -= {i for i in dropped if i not in held and i not in always}
            fresh, before = set(), held
        missing: set[int] = set()
        stack = [source for source in sources[op] if source < end and source not in available]
        while stack:
            wanted = stack.pop()
            if wanted not in missing:
                missing.add(wanted)
                stack.extend(source for source in sources[wanted] if source not in available)
        steps.extend(sorted(missing))
        steps.append(op)
        available |= missing
        fresh |= missing
    return steps


def steps_from_stages(graph: Graph, retained: NDArray[np.bool_]) -> list[int]:
    """Return the steps of the least R for a retention.

    ``retained``: bool[n, m], ``retained[t, v]``: value ``v`` is kept from stage ``t - 1`` into stage ``t``,
    which ends with the first computation of op ``t``. Entries of values that cannot exist yet are ignored. In
    one descending pass per stage, an op runs if it is the stage's own, if a running op of the stage reads its
    output and that is not retained, or if its output must pass into the next stage and is missing.
    """
    n = graph.n
    reads, writes = graph.op_inputs.lists(), graph.op_outputs.lists()
    producer = graph.producer
    produced = producer >= 0
    exists = produced & (producer[None, :] < np.arange(n)[:, None])
    held = retained & exists
    steps: list[int] = []
    for stage in range(n):
        here = held[stage]
        into_next = held[stage + 1] if stage + 1 < n else graph.keep & produced
        wanted = into_next & ~here
        runs: list[int] = []
        for op in range(stage, -1, -1):
            if op == stage or any(wanted[value] for value in writes[op]):
                runs.append(op)
                for value in reads[op]:
                    if not here[value]:
                        wanted[value] = True
        steps.extend(reversed(runs))
    return steps


def without_useless(graph: Graph, steps: Sequence[int]) -> list[int]:
    """Leave out recomputations that nobody reads; first computations, and so their order, stay."""
    plan = np.asarray(steps)
    first = np.zeros(len(plan), np.bool_)
    first[np.unique(plan, return_index=True)[1]] = True
    needed = set(np.flatnonzero(graph.keep & (graph.producer >= 0)).tolist())
    reads, writes = graph.op_inputs.lists(), graph.op_outputs.lists()
    left: list[int] = []
    for position in range(len(steps) - 1, -1, -1):
        op = int(plan[position])
        if not first[position] and needed.isdisjoint(writes[op]):
            continue
        needed.difference_update(writes[op])
        needed.update(reads[op])
        left.append(op)
    left.reverse()
    return left


def retained_into_stages(graph: Graph, steps: NDArray[np.integer[Any]]) -> NDArray[np.bool_] | None:
    """What a schedule retains into each stage, and past the end; None unless it keeps the given order.

    bool[n + 1, m]. A view's owner counts as retained with it; a value without bytes of its own always does.
    """
    plan = np.asarray(steps)
    ops, first = np.unique(plan, return_index=True)
    if len(ops) != graph.n or ops[-1] != graph.n - 1 or (np.diff(first) < 0).any():
        return None
    retained = np.zeros((graph.n + 1, graph.m), np.bool_)
    produced = graph.producer >= 0
    needed = graph.keep & produced
    retained[graph.n] = needed
    stage = graph.n - 1
    for position in range(len(plan) - 1, -1, -1):
        op = int(plan[position])
        while stage and position <= first[stage - 1]:
            retained[stage] = needed
            stage -= 1
        needed[graph.op_outputs[op]] = False
        needed[graph.op_inputs[op]] = True
    for value in np.flatnonzero(produced).tolist():
        owner = int(graph.owner[value])
        if not produced[owner] or not graph.values[owner].bytes:
            retained[graph.producer[value] + 1 :, value] = True
        elif owner != value:
            retained[:, owner] |= retained[:, value]
    return retained
