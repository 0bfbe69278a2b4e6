"""What is under the pointer, in words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.presenters.axes import StepAxis
from app.presenters.matrix_image import held_spans
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


def cell_words(shown: ListedSchedule, which: str, stage: int, column: int) -> list[str]:
    graph, matrices = shown.graph, shown.matrices
    op, ends = int(matrices.order[column]), int(matrices.order[stage])
    head = [f"stage {stage + 1:,} · op {column + 1:,}", _op_words(graph, op)]
    words = _computed_words(shown, stage, column) if which == "R" else _held_words(shown, stage, column)
    return [*head, words, f"the stage ends with {short_name(graph.ops[ends].name)}"]


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


def crowd_words(
    shown: ListedSchedule, which: str, rows: tuple[int, int], columns: tuple[int, int]
) -> list[str]:
    """How many of the cells that share a pixel are set. Each pair is the first row or column, and one past
    the last."""
    matrices = shown.matrices
    if which == "R":
        stages, ops = matrices.stage_of_step, matrices.column_of_step
        inside = (stages >= rows[0]) & (stages < rows[1]) & (ops >= columns[0]) & (ops < columns[1])
        count, word = int(inside.sum()), "computed"
    else:
        column, begin, end = held_spans(matrices)
        chosen = (column >= columns[0]) & (column < columns[1])
        begin, end = np.maximum(begin[chosen], rows[0]), np.minimum(end[chosen], rows[1])
        count, word = int(np.maximum(end - begin, 0).sum()), "held"
    cells = (min(rows[1], matrices.n) - rows[0]) * (min(columns[1], matrices.n) - columns[0])
    return [f"about {cells:,} cells share this pixel, {count:,} {word}; the wheel zooms in"]


def _has(matrices: StageMatrices, which: str, stage: int, column: int) -> bool:
    if which == "R":
        return bool(((matrices.stage_of_step == stage) & (matrices.column_of_step == column)).any())
    return bool(_spans_at(matrices, stage, column).any())


def _spans_at(matrices: StageMatrices, stage: int, column: int) -> NDArray[np.bool_]:
    held = (matrices.held_from <= stage) & (stage < matrices.held_to)
    return np.asarray(held & (matrices.held_column == column))


def _computed_words(shown: ListedSchedule, stage: int, column: int) -> str:
    matrices = shown.matrices
    runs = np.flatnonzero((matrices.stage_of_step == stage) & (matrices.column_of_step == column))
    if not len(runs):
        return "not computed in this stage"
    step = int(runs[-1])
    how = "computed here for the first time" if shown.schedule.first_occurrence[step] else "recomputed here"
    return f"{how}, in step {step + 1:,}"


def _held_words(shown: ListedSchedule, stage: int, column: int) -> str:
    matrices, graph = shown.matrices, shown.graph
    some = _spans_at(matrices, stage, column)
    if not some.any():
        return "nothing of it is held into this stage"
    op = graph.ops[int(matrices.order[column])]
    size = sum(graph.values[value].bytes for value in op.outputs)
    first, last = int(matrices.held_from[some].min()), int(matrices.held_to[some].max())
    return f"held ({format_bytes(size)}), from stage {first + 1:,} to stage {last:,}"


def _op_words(graph: Graph, op: int) -> str:
    entry = graph.ops[op]
    return f"{short_name(entry.name)} · {entry.phase.value}"


def _run_words(shown: ListedSchedule, step: int) -> str:
    if shown.schedule.first_occurrence[step]:
        return ""
    op = shown.schedule.steps[step]
    return f" · recomputed, run {int((shown.schedule.steps[: step + 1] == op).sum())}"
