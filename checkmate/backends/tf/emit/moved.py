"""Move a schedule to the same step traced at another size.

The ops of both traces are the same, one by one. How they are folded into nodes may differ, because a tensor
that is large in one may be small in the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.errors import TraceError


def op_types(folded: FoldedStep) -> list[str]:
    """Return the types of the traced ops, in order. The same step is recognised by them at another size."""
    return [str(op.type) for op in folded.structure.ops]


def moved_steps(
    steps: Sequence[int], nodes: Sequence[Sequence[int]], types: Sequence[str], folded: FoldedStep
) -> list[int]:
    """Return the nodes of ``folded`` in the order of another trace's schedule.

    ``steps``: the schedule of the other trace, which is folded into ``nodes``. ``types``: the types of that
    trace's ops. A node runs again as often as its last op does there. What it reads and nothing has made yet
    runs before it. So the order is valid even if the traces differ; the memory it needs is another question.

    Raises:
        TraceError: the traces are not of one step.
    """
    if list(types) != op_types(folded):
        raise TraceError(
            f"the step of {folded.graph.name!r} is not the same at batch {folded.graph.batch_size}",
            hint="gradients can only be compared at batch sizes that are traced alike",
        )
    graph = folded.graph
    place = {op: node for node, members in enumerate(nodes) for op in members}
    there: dict[int, list[int]] = defaultdict(list)  # node of the other trace -> those of this one
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
