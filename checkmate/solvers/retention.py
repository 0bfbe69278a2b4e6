"""From what is retained to a sequence of steps, in the graph's given order.

Two forms: per stage (the paper's S), and per backward op (checkpoints). In both, what is missing is recomputed by the smallest
chain that leads to it, so the R that results is the least one for the retention.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
from numpy.typing import NDArray

from checkmate.ir.graph import Graph, Phase


def forward_end(graph: Graph) -> int:
    """Index after the last forward or loss op; ops before it are the forward pass of the given order."""
    return max((i for i, op in enumerate(graph.ops) if op.phase in (Phase.FORWARD, Phase.LOSS)), default=-1) + 1


def op_sources(graph: Graph) -> list[list[int]]:
    """Per op the ops it depends on, each once, later ones first."""
    return [sorted(row, reverse=True) for row in graph.predecessors.lists()]


def steps_with_checkpoints(graph: Graph, held_at: Callable[[int], Collection[int] | None]) -> list[int]:
    """The forward pass once, then every later op, each preceded by what it needs recomputed.

    ``held_at(op)``: the forward ops whose outputs are still held when later op ``op`` starts; others are dropped before it
    and computed again where needed; None: nothing is dropped. Ops that may run only once, and later ops, are always held.
    """
    end = forward_end(graph)
    sources = op_sources(graph)
    once = {i for i in range(end) if not graph.ops[i].recomputable}
    steps = list(range(end))
    available = set(range(end))
    for op in range(end, graph.n):
        held = held_at(op)
        if held is not None:
            available = {i for i in available if i >= end or i in held or i in once}
        missing: set[int] = set()
        stack = [source for source in sources[op] if source not in available]
        while stack:
            wanted = stack.pop()
            if wanted not in missing:
                missing.add(wanted)
                stack.extend(source for source in sources[wanted] if source not in available)
        steps.extend(sorted(missing))
        steps.append(op)
        available |= missing
        available.add(op)
    return steps


def steps_from_stages(graph: Graph, S: NDArray[np.bool_]) -> list[int]:
    """The steps of the least R for ``S`` (bool[n, n], ``S[t, i]``: op ``i``'s outputs are retained into stage ``t``).

    One descending pass per stage: an op runs where it is the stage's own, where a running op of the stage needs it and it
    is not retained, or where it must be retained into the next stage and is not there.
    """
    sources = op_sources(graph)
    held = S.copy()
    kept = np.zeros(graph.n, np.bool_)
    kept[graph.producer[graph.keep & (graph.producer >= 0)]] = True
    steps: list[int] = []
    for stage in range(graph.n):
        needed = np.zeros(graph.n, np.bool_)
        needed[stage] = True
        # Past the last stage, what is kept must be there.
        needed |= (held[stage + 1] if stage + 1 < graph.n else kept) & ~held[stage]
        for op in range(stage, -1, -1):
            if needed[op]:
                for source in sources[op]:
                    if not held[stage, source]:
                        needed[source] = True
        steps.extend(np.flatnonzero(needed[: stage + 1]).tolist())
    return steps
