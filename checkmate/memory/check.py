"""Independent replay of a schedule in plain Python, one step at a time.

It is written to be read beside the definition in ``checkmate.ir.timeline``. It shares no code with what made
the schedule, nor with ``checkmate.memory.simulate``, because it must be able to contradict both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from checkmate.ir import CheckReport, Graph, Op, Violation

_REPORTED = 20  # the most violations that are listed; the first ones say what is wrong


class _Buffer(NamedTuple):
    """A buffer, named by the value that owns it and the step that produced it."""

    owner: int
    born: int


def check(graph: Graph, steps: Sequence[int], *, budget_bytes: int | None = None) -> CheckReport:
    """Replay ``steps`` (op indices); return validity, peak in bytes, cost. It never raises."""
    plan = [int(step) for step in steps]
    outside = [step for step in plan if not 0 <= step < len(graph.ops)]
    base_cost = sum(op.cost for op in graph.ops)
    if outside:
        violation = Violation(f"names op {outside[0]}; there are {len(graph.ops)}", plan.index(outside[0]))
        return CheckReport((violation,), 0, None, 0.0, base_cost, 0, budget_bytes)
    produced = {value for op in graph.ops for value in op.outputs}
    dying, unmet = _dying(graph, plan, produced)
    violations = _run_counts(graph, plan)
    if unmet:
        names = ", ".join(f"{value} {graph.values[value].name!r}" for value in sorted(unmet)[:5])
        violations.append(Violation(f"read or kept without being produced: values {names}"))
    peak, peak_step = _replay(graph, plan, produced, dying, violations)
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


def _dying(graph: Graph, plan: list[int], produced: set[int]) -> tuple[list[list[int]], set[int]]:
    """Return, per step, the values that it reads or writes and that are dead after it; and the values that
    are read or kept but never made.

    Walking backward, ``needed`` holds the values that a later step reads before they are produced again, and
    the kept ones. A value dies only in a step that reads it for the last time, or that writes it unread.
    """
    needed = {value for value in produced if graph.values[value].keep}
    dying: list[list[int]] = [[] for _ in plan]
    for position in range(len(plan) - 1, -1, -1):
        op = graph.ops[plan[position]]
        read = {value for value in op.inputs if value in produced}
        dying[position] = [value for value in read.union(op.outputs) if value not in needed]
        needed.difference_update(op.outputs)
        needed.update(read)
    return dying, needed


def _replay(
    graph: Graph, plan: list[int], produced: set[int], dying: list[list[int]], violations: list[Violation]
) -> tuple[int, int | None]:
    """Return the peak and its first step; add reads of dead values to ``violations``."""
    current: dict[int, _Buffer] = {}  # the buffer of each value's latest production
    live: set[int] = set()
    holders: dict[_Buffer, int] = {}  # live values per live buffer
    held_bytes = 0
    peak, peak_step = 0, None
    for position, step in enumerate(plan):
        op = graph.ops[step]
        for value in op.inputs:
            if value in produced and value not in live:
                name = graph.values[value].name
                violations.append(
                    Violation(f"op {op.name!r} reads value {value} {name!r}, which is not live", position)
                )
        read = {value: current[value] for value in op.inputs if value in current}
        for value in op.outputs:
            buffer = current[value] = _buffer_of_output(graph, value, position, current, produced)
            live.add(value)
            if buffer not in holders and buffer.owner in produced:
                held_bytes += graph.values[buffer.owner].bytes
            holders[buffer] = holders.get(buffer, 0) + 1
        now = graph.fixed_bytes + op.workspace_bytes + held_bytes
        freed: set[_Buffer] = set()
        for value in dying[position]:
            if value not in live:
                continue  # it was read without being live; that is already noted
            live.discard(value)
            buffer = current[value]
            holders[buffer] -= 1
            if holders[buffer] == 0:
                del holders[buffer]
                if buffer.owner in produced:
                    freed.add(buffer)
                    held_bytes -= graph.values[buffer.owner].bytes
        now -= _taken_over(graph, op, read, current, freed)
        if now > peak:
            peak, peak_step = now, position
    return peak, peak_step


def _buffer_of_output(
    graph: Graph, value: int, position: int, current: dict[int, _Buffer], produced: set[int]
) -> _Buffer:
    """Return an output's buffer: its own, or for a view its parent's; born at -1 where it is fixed."""
    parent = graph.values[value].alias_of
    if parent is None:
        return _Buffer(value, position)
    if parent in produced:
        return current.get(parent, _Buffer(parent, position))
    return _Buffer(parent, -1)


def _taken_over(
    graph: Graph, op: Op, read: dict[int, _Buffer], current: dict[int, _Buffer], freed: set[_Buffer]
) -> int:
    """Return the bytes of input buffers, freed by this step, that outputs are written over."""
    saved = 0
    written: set[int] = set()
    for output, taken in op.takes_over:
        old, new = read.get(taken), current[output]
        if output in written or old is None or old == new or old not in freed:
            continue
        if graph.values[old.owner].bytes == graph.values[new.owner].bytes:
            saved += graph.values[old.owner].bytes
            freed.discard(old)
            written.add(output)
    return saved
