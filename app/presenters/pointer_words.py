"""What is under the pointer, in words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.presenters.axes import StepAxis
from app.presenters.memory_curve import KINDS, Stack
from app.presenters.wording import short_name
from app.state.knowledge import ListedSchedule
from checkmate.ir import CostOrigin, CostUnit, Graph, StageMatrices
from checkmate.machine.cost_origin import cost_text
from checkmate.units import format_bytes, plural

KIND_WORDS = {
    "fixed": "parameters, optimizer, inputs",
    "activations": "activations",
    "gradients": "gradients",
    "workspace": "workspace",
}

_GRAB = 3.0  # a click up to this many times ``reach`` away from a cell still selects it


def step_words(shown: ListedSchedule, axis: StepAxis, stack: Stack, step: int) -> str:
    graph, steps = shown.graph, shown.schedule.steps
    stage = int(shown.matrices.stage_of_step[step])
    live, peak = int(shown.timeline.live_bytes[step]), shown.timeline.peak_bytes
    share = "the peak" if step == shown.timeline.peak_step else f"{100 * live / peak:.0f} % of the peak"
    parts = [
        f"{KIND_WORDS[kind]} {format_bytes(part)}"
        for kind, part in zip(KINDS, stack.layers[:, step].tolist(), strict=True)
        if part
    ]
    lines = [
        f"step {step + 1:,} of {len(steps):,} · stage {stage + 1:,}",
        f"{_op_words(graph, int(steps[step]))}{_run_words(shown, step)}",
        f"{format_bytes(live)} live, {share}",
        " + ".join(parts),
        time_words(axis, step),
    ]
    return "\n".join(lines)


def time_words(axis: StepAxis, step: int) -> str:
    """When a step runs, and how that is known."""
    graph = axis.graph
    if axis.costs[-1] <= 0:
        return "its cost is not known"
    known = {
        CostOrigin.MEASURED: "from measured costs",
        CostOrigin.ANALYTIC: "estimated",
        CostOrigin.GIVEN: "as the file says",
    }[graph.cost_origin]
    at, own, whole = (float(cost) for cost in (axis.costs[step], np.diff(axis.costs)[step], axis.costs[-1]))
    if graph.cost_unit is CostUnit.UNIT:
        return f"after {at:,.4g} of {cost_text(graph, whole)}, costs {own:,.4g} ({known})"
    after = f"after {cost_text(graph, at)} of {cost_text(graph, whole)}"
    return f"{after}, takes {cost_text(graph, own)} ({known})"


def range_words(shown: ListedSchedule, axis: StepAxis, chosen: tuple[int, int]) -> str:
    first, last = chosen
    live = shown.timeline.live_bytes[first : last + 1]
    through = (shown.timeline.buffer_born <= first) & (shown.timeline.buffer_last >= last)
    held = int(shown.timeline.buffer_bytes[through].sum())
    again = int((~shown.schedule.first_occurrence[first : last + 1]).sum())
    cost = float(axis.costs[last + 1] - axis.costs[first])
    took = f", {cost_text(axis.graph, cost)}" if axis.costs[-1] > 0 else ""
    repeated = f" ({again:,} recomputed)" if again else ""
    return (
        f"{plural(last + 1 - first, 'step')}{took}, {format_bytes(int(live.min()))} to "
        f"{format_bytes(int(live.max()))} live · steps {first + 1:,} to {last + 1:,}{repeated}"
        f" · all the while {plural(int(through.sum()), 'value')}, {format_bytes(held)}"
    )


def cell_near(
    shown: ListedSchedule, axis: StepAxis, which: str, at: tuple[float, float], reach: tuple[float, float]
) -> tuple[int, int]:
    """The (step, column) of the nearest set cell of R or S, if one is near ``at`` (axis place, column); else
    the step and column at ``at``. ``reach``: by how much cells are drawn enlarged, on each side. Of several
    cells drawn at ``at``, a recomputation wins, since it is drawn on top."""
    matrices, step = shown.matrices, axis.step_at(at[0])
    if which == "R":
        steps, column, rank = np.arange(axis.count), matrices.column_of_step, shown.schedule.first_occurrence
        aside = np.maximum(axis.edges[:-1] - at[0], at[0] - axis.edges[1:])
    else:
        column = matrices.held_column[_spans_of(matrices, int(matrices.stage_of_step[step]))]
        steps, rank = np.full(len(column), step), np.zeros(len(column), np.bool_)
        aside = np.zeros(len(column))
    away = np.maximum(column - at[1], at[1] - column - 1)
    far = np.maximum(0, np.maximum(aside / reach[0], away / reach[1]))
    near = np.flatnonzero(far <= _GRAB)
    if not len(near):
        return step, min(matrices.n - 1, max(0, int(at[1])))
    best = near[np.lexsort((far[near], rank[near], np.maximum(1, far[near])))[0]]
    return int(steps[best]), int(column[best])


def cell_words(shown: ListedSchedule, which: str, step: int, column: int) -> str:
    """What the cell of R or S means that is in a column, and in the stage of a step."""
    stage = int(shown.matrices.stage_of_step[step])
    begin, end = np.searchsorted(shown.matrices.stage_of_step, (stage, stage + 1)).tolist()
    op, runs = int(shown.matrices.order[column]), shown.runs
    name, steps = _in_layer(shown.graph, op), runs.steps_of(op)
    if which == "S":
        held = bool(_spans_at(shown.matrices, stage, column).any())
        words = _held_words(shown, op, begin) if held else _not_held_words(shown, op, begin)
        return f"{name} is {'' if held else 'not '}held as stage {stage + 1:,} starts:\n{words}"
    here = [run for run in steps if begin <= run < end]
    if not here:
        return f"{name} is not computed in stage {stage + 1:,}"
    run = step if step in here else here[-1]
    if run == steps[0]:
        return f"stage {stage + 1:,} computes {name} for the first time, at step {run + 1:,}"
    again = runs.recomputations_of(op)[steps.index(run) - 1]
    why = []
    dropped = _last_held(shown, op, again.before, run)
    if dropped < run:  # a view's buffer may live until ``run``, and was not dropped
        why.append(f"dropped after step {dropped + 1:,}")
    if again.read_at is not None:
        why.append(f"needed by {_reader_at(shown, again.read_at)}")
    said = f"stage {stage + 1:,} computes {name} again, at step {run + 1:,}"
    return f"{said}:\n{', '.join(why)}" if why else said


def compared_words(
    shown: ListedSchedule, other: ListedSchedule, which: str, stage: int, column: int
) -> list[str]:
    """Whether A and B have a cell, at A's stages and columns."""
    op, ends = (int(shown.matrices.order[at]) for at in (column, stage))
    row, across = (int(np.flatnonzero(other.matrices.order == one)[0]) for one in (ends, op))
    has = [_has(one.matrices, which, *at) for one, at in ((shown, (stage, column)), (other, (row, across)))]
    word = "computed" if which == "R" else "held"
    names = [name for name, yes in zip("AB", has, strict=True) if yes]
    return [f"{word} in {' and '.join(names) or 'neither'}"]


def _has(matrices: StageMatrices, which: str, stage: int, column: int) -> bool:
    if which == "R":
        return bool(((matrices.stage_of_step == stage) & (matrices.column_of_step == column)).any())
    return bool(_spans_at(matrices, stage, column).any())


def _spans_of(matrices: StageMatrices, stage: int) -> NDArray[np.bool_]:
    return np.asarray((matrices.held_from <= stage) & (stage < matrices.held_to))


def _spans_at(matrices: StageMatrices, stage: int, column: int) -> NDArray[np.bool_]:
    return np.asarray(_spans_of(matrices, stage) & (matrices.held_column == column))


def _held_words(shown: ListedSchedule, op: int, begin: int) -> str:
    made = max(run for run in shown.runs.steps_of(op) if run < begin)
    read = next((step for step in shown.runs.reads_of(op) if step >= begin), None)
    use = "kept to the end" if read is None else f"next used by {_reader_at(shown, read)}"
    return f"computed at step {made + 1:,}, {use}"


def _not_held_words(shown: ListedSchedule, op: int, begin: int) -> str:
    steps = shown.runs.steps_of(op)
    before = [run for run in steps if run < begin]
    after = steps[len(before) :]
    if not before:
        return f"first computed at step {after[0] + 1:,}"
    dropped = _last_held(shown, op, before[-1], begin)
    if dropped >= begin:
        return "only what shares its memory is read again"
    then = f"computed again at step {after[0] + 1:,}" if after else "not needed again"
    return f"dropped after step {dropped + 1:,}, {then}"


def _last_held(shown: ListedSchedule, op: int, run: int, until: int) -> int:
    """The last step for which what a run made was in memory. A view has no memory, but is read."""
    reads = (step for step in shown.runs.reads_of(op) if run < step < until)
    return max([shown.runs.freed_after(run), *reads])


def _reader_at(shown: ListedSchedule, step: int) -> str:
    return f"{_in_layer(shown.graph, int(shown.schedule.steps[step]))} at step {step + 1:,}"


def _in_layer(graph: Graph, op: int) -> str:
    name, layer = short_name(graph.ops[op].name), graph.ops[op].group.rsplit("/", 1)[-1]
    return name if layer in name else f"{name} of {layer}"


def _op_words(graph: Graph, op: int) -> str:
    entry = graph.ops[op]
    return f"{short_name(entry.name)} · {entry.phase.value}"


def _run_words(shown: ListedSchedule, step: int) -> str:
    if shown.schedule.first_occurrence[step]:
        return ""
    op = shown.schedule.steps[step]
    return f" · recomputed, run {int((shown.schedule.steps[: step + 1] == op).sum())}"
