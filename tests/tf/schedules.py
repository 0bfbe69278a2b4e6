"""Make schedules for tests without a solver."""

from __future__ import annotations

from checkmate.ir import Graph, Phase, Schedule


def recompute_forward(graph: Graph) -> Schedule:
    """Return a schedule that recomputes all it can of the forward pass. Each op runs again just before its
    first reader in the backward pass."""
    border = max(i for i, op in enumerate(graph.ops) if op.phase in (Phase.FORWARD, Phase.LOSS)) + 1
    again = {i for i in range(border) if graph.ops[i].phase is Phase.FORWARD and graph.ops[i].recomputable}
    steps = list(range(border))
    fresh: set[int] = set()

    def need(op: int) -> None:
        for value in graph.op_inputs[op].tolist():
            producer = int(graph.producer[value])
            if producer in again and producer not in fresh:
                fresh.add(producer)
                need(producer)
                steps.append(producer)

    for op in range(border, graph.n):
        need(op)
        steps.append(op)
    return Schedule.of(graph, steps)


def keep_everything(graph: Graph) -> Schedule:
    """Return the schedule of every op once, in the graph's order."""
    return Schedule.plain(graph)
