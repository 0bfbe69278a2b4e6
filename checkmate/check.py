"""Independent replay of a schedule: plain Python, one step at a time, sharing no code with what made it.

Written to be read against the definition in ``checkmate.ir.timeline``. Imports the values of ``checkmate.ir`` only; in
particular not ``checkmate.simulate``, whose arrays it is there to contradict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkmate.ir.graph import Graph
from checkmate.ir.report import CheckReport, Violation

_REPORTED = 20  # violations listed; the first ones say what is wrong


@dataclass(frozen=True)
class _Buffer:
    """A buffer is named by the value that owns it and the step that produced it."""

    owner: int
    born: int


def check(graph: Graph, steps: Sequence[int], *, budget_bytes: int | None = None) -> CheckReport:
    """Replay ``steps`` (op indices) on ``graph``: is it valid, what is its peak in bytes, what does it cost?

    Never raises for a bad schedule: what is wrong is in ``violations``.
    """
    plan = [int(step) for step in steps]
    outside = [step for step in plan if not 0 <= step < len(graph.ops)]
    base_cost = sum(op.cost for op in graph.ops)
    if outside:
        violation = Violation(f"names op {outside[0]}; there are {len(graph.ops)}", plan.index(outside[0]))
        return CheckReport((violation,), 0, None, 0.0, base_cost, 0, budget_bytes)
    produced = {value for op in graph.ops for value in op.outputs}
    needed_after, unmet = _needed_after(graph, plan, produced)
    violations = _run_counts(graph, plan)
    if unmet:
        names = ", ".join(f"{value} {graph.values[value].name!r}" for value in sorted(unmet)[:5])
        violations.append(Violation(f"read or kept without being produced: values {names}"))
    peak, peak_step = _replay(graph, plan, produced, needed_after, violations)
    return CheckReport(
        violations=tuple(violations[:_REPORTED]),
        peak_bytes=peak,
        peak_step=peak_step,
        cost=sum(graph.ops[step].cost for step in plan),
        base_cost=base_cost,
        recomputations=len(plan) - len(set(plan)),
        budget_bytes=budget_bytes,
    )


def _run_counts(graph: Graph, plan: list[int]) -> list[Violation]:
    counts = [0] * len(graph.ops)
    for step in plan:
        counts[step] += 1
    violations = []
    for index, (op, count) in enumerate(zip(graph.ops, counts, strict=True)):
        if count == 0:
            violations.append(Violation(f"op {index} {op.name!r} never runs"))
        if count > 1 and not op.recomputable:
            violations.append(Violation(f"op {index} {op.name!r} must run once and runs {count} times"))
    return violations


def _needed_after(graph: Graph, plan: list[int], produced: set[int]) -> tuple[list[frozenset[int]], set[int]]:
    """Per step, the values a later step reads before they are produced again (or that are kept); and what stays unmet."""
    needed = {value for value in produced if graph.values[value].keep}
    after: list[frozenset[int]] = [frozenset()] * len(plan)
    snapshot = frozenset(needed)
    for position in range(len(plan) - 1, -1, -1):
        after[position] = snapshot
        op = graph.ops[plan[position]]
        needed.difference_update(op.outputs)
        needed.update(value for value in op.inputs if value in produced)
        snapshot = frozenset(needed)
    return after, needed


def _replay(
    graph: Graph,
    plan: list[int],
    produced: set[int],
    needed_after: list[frozenset[int]],
    violations: list[Violation],
) -> tuple[int, int | None]:
    """Walk the plan; return the peak and its first step, and note every read of a value that is not live."""
    current: dict[int, _Buffer] = {}
    live: set[int] = set()
    peak, peak_step = 0, None
    for position, step in enumerate(plan):
        op = graph.ops[step]
        for value in op.inputs:
            if value in produced and value not in live:
                violations.append(
                    Violation(
                        f"op {op.name!r} reads value {value} {graph.values[value].name!r}, which is not live", position
                    )
                )
        held = {current[value] for value in live}
        read = {value: current[value] for value in op.inputs if value in current}
        for value in op.outputs:
            parent = graph.values[value].alias_of
            if parent is None:
                current[value] = _Buffer(value, position)
            elif parent in produced:
                current[value] = current.get(parent, _Buffer(parent, position))
            else:
                current[value] = _Buffer(parent, -1)
        survivors = {value for value in live.union(op.outputs) if value in needed_after[position]}
        surviving_buffers = {current[value] for value in survivors}
        buffers = {b for b in held.union(current[value] for value in op.outputs) if b.owner in produced}
        now = graph.fixed_bytes + op.workspace_bytes + sum(graph.values[b.owner].bytes for b in buffers)
        written: set[int] = set()
        for output, taken in op.takes_over:
            old, new = read.get(taken), current[output]
            if output in written or old is None or old not in buffers or old in surviving_buffers or old == new:
                continue
            if graph.values[old.owner].bytes == graph.values[new.owner].bytes:
                now -= graph.values[old.owner].bytes
                buffers.discard(old)
                written.add(output)
        if now > peak:
            peak, peak_step = now, position
        live = survivors
    return peak, peak_step
