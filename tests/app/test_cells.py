from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product
from random import Random

import numpy as np
import pytest

from app.models.exploration import Exploration
from app.models.span import Scale, StepSpan
from app.presenters.axes import StepAxis, stage_edges
from app.presenters.matrix_image import (
    BACKWARD,
    BOTH,
    FORWARD,
    NEITHER,
    ONLY_A,
    ONLY_B,
    RECOMPUTED,
    Raster,
    compared_picture,
    computed_picture,
    held_spans,
    held_strength,
)
from app.presenters.memory_curve import in_columns, memory_stack
from app.presenters.pointer_words import cell_near, cell_words
from app.state.knowledge import ListedSchedule
from checkmate.ir import CostUnit, Graph, GraphBuilder, Schedule, StageMatrices
from tests.app.test_compare import pairs
from tests.app.windows import exploration_of, training_chain


def rasters(graph: Graph, schedule: Schedule) -> Iterator[Raster]:
    """Return images of all and of parts, with pixels larger and smaller than cells, by steps and by costs."""
    for seed in range(6):
        random = Random(seed)
        axis = StepAxis.of(graph, schedule, by_cost=seed % 2 == 1)
        begin, top = (random.uniform(0, most / 2) for most in (axis.count, graph.n))
        steps = begin, random.uniform(begin + 1, axis.count)
        ops = top, random.uniform(top + 1, graph.n)
        if axis.place(steps[1]) <= axis.place(steps[0]):
            continue  # a part that costs nothing
        yield Raster.of(axis, steps, ops, (random.randint(1, 60), random.randint(1, 60)), 3)


def lines_of(raster: Raster, column: int) -> list[int]:
    """Return the lines of pixels that an op's row has."""
    begin, end = (math.floor(raster.top + at * raster.row) for at in (column, column + 1))
    gap = int(raster.row >= 3)
    return [line for line in range(begin, max(begin + 1, end - gap)) if 0 <= line < raster.size[0]]


def stage_borders(matrices: StageMatrices, raster: Raster) -> list[float]:
    """Return the pixel at which each stage begins, and the last one ends."""
    steps = [int(np.argmax(matrices.stage_of_step == stage)) for stage in range(matrices.n)]
    return [*raster.edges[steps].tolist(), float(raster.edges[-1])]


def test_a_pixel_is_as_dense_as_the_cells_below_it() -> None:
    for graph, schedule, _ in pairs():
        matrices = schedule.matrices(graph)
        column, begin, end = held_spans(matrices)
        for raster in rasters(graph, schedule):
            borders, starts = stage_borders(matrices, raster), stage_edges(matrices)
            found = raster.density(starts[begin], starts[end], column)
            pixels = np.arange(raster.size[1])
            inside = [
                np.clip(np.minimum(pixels + 1, high) - np.maximum(pixels, low), 0, 1)
                for low, high in pairwise(borders)
            ]
            each = matrices.S.T.astype(float) @ np.array(inside)  # of each op in each pixel
            for line in range(raster.size[0]):
                ops = [op for op in range(graph.n) if line in lines_of(raster, op)]
                expected = each[ops].mean(axis=0) if ops else 0.0
                assert np.allclose(found[line], expected)


def test_what_is_held_stays_visible_and_nothing_else_is_drawn() -> None:
    for graph, schedule, _ in pairs():
        matrices = schedule.matrices(graph)
        (column, begin, end), starts = held_spans(matrices), stage_edges(matrices)
        for raster in rasters(graph, schedule):
            strength = held_strength(graph, matrices, raster)
            everywhere = raster.density(starts[begin], starts[end], column)
            assert ((strength > 0.15) == (everywhere > 1e-9)).all() and strength.max(initial=0) <= 1


def test_every_step_is_seen_in_r_at_its_own_moment_and_recomputations_above_all() -> None:
    again = 0
    for graph, schedule, _ in pairs():
        matrices = schedule.matrices(graph)
        for raster in rasters(graph, schedule):
            image, drawn = computed_picture(graph, matrices, raster), np.zeros(raster.size, bool)
            for step, (column, op) in enumerate(zip(matrices.column_of_step, schedule.steps, strict=True)):
                x = (raster.edges[step] + raster.edges[step + 1]) / 2
                y = raster.top + (column + 0.5) * raster.row
                repeated = matrices.stage_of_step[step] != column
                reach = np.array([raster.row, raster.edges[step + 1] - raster.edges[step]]) / 2 + 3
                (low_y, low_x), (high_y, high_x) = (
                    np.clip(np.array([y, x]) + sign * reach, 0, None).astype(int) for sign in (-1, 1)
                )
                drawn[low_y : high_y + 1, low_x : high_x + 1] = True
                if 0 <= x < raster.size[1] and 0 <= y < raster.size[0] and raster.row < 3:
                    index = RECOMPUTED if repeated else BACKWARD if graph.late[op] else FORWARD
                    assert index <= image[int(y), int(x)] <= RECOMPUTED
                    again += bool(repeated)
            assert not image[~drawn].any()
    assert again > 20


def in_order_of(order: np.ndarray, matrices: StageMatrices, which: str) -> np.ndarray:
    """Return R or S with columns and stages in another order of ops. Its stage t ends with the first
    computation of op ``order[t]``."""
    index = np.argsort(matrices.order)[order]
    return getattr(matrices, which)[np.ix_(index, index)]


def in_another_order(graph: Graph) -> Schedule:
    """Return a plain step with the last op first that can be."""
    needs = [{int(graph.producer[value]) for value in op.inputs} - {-1} for op in graph.ops]
    steps: list[int] = []
    while len(steps) < graph.n:
        steps.append(max(op for op in range(graph.n) if op not in steps and needs[op] <= set(steps)))
    return Schedule.of(graph, steps)


def wide(graph: Graph, schedule: Schedule) -> Raster:
    """Return an image in which every cell has pixels of its own."""
    steps = len(schedule.steps)
    axis = StepAxis.of(graph, schedule, by_cost=False)
    return Raster.of(axis, (0.0, steps), (0.0, graph.n), (3 * graph.n, 8 * steps), 3)


def test_schedules_are_compared_cell_by_cell_in_any_order_of_ops() -> None:
    seen = set()
    for graph, a, other in pairs():
        first, raster = a.matrices(graph), wide(graph, a)
        for b, which in product((other, in_another_order(graph)), "RS"):
            second = b.matrices(graph)
            image = compared_picture(first, second, which, raster)
            cells = getattr(first, which), in_order_of(first.order, second, which)
            for stage, (low, high) in enumerate(pairwise(stage_borders(first, raster))):
                for op in range(graph.n):
                    part = image[3 * op + 1, round(low) + 2 : round(high) - 2]  # without others' dots
                    cell = tuple(int(one[stage, op]) for one in cells)
                    case = {(0, 0): NEITHER, (1, 0): ONLY_A, (0, 1): ONLY_B, (1, 1): BOTH}[cell]
                    assert part.max() == case, (which, stage, op)
                    seen.add((which, case, np.array_equal(first.order, second.order)))
    assert len(seen) > 12


def test_a_narrow_comparison_says_who_holds_anything_there() -> None:
    for graph, a, b in pairs():
        first, second, axis = a.matrices(graph), b.matrices(graph), StepAxis.of(graph, a, by_cost=False)
        raster = Raster.of(axis, (0.0, axis.count), (0.0, graph.n), (2 * graph.n, 5), 1)
        image = compared_picture(first, second, "S", raster)
        one, other = first.S, in_order_of(first.order, second, "S")
        borders = stage_borders(first, raster)
        for pixel in range(5):
            stages = [
                stage
                for stage, (low, high) in enumerate(pairwise(borders))
                if low < pixel + 1 and high > pixel
            ]
            cases = one[stages].any(axis=0) * 1 + other[stages].any(axis=0) * 2
            codes = np.array([NEITHER, ONLY_A, ONLY_B, BOTH])[cases]
            assert (image[::2, pixel] == codes).all() and (image[1::2, pixel] == codes).all()


def listed(graph: Graph, schedule: Schedule) -> ListedSchedule:
    plain = exploration_of(graph).plain
    return replace(plain, point=replace(plain.point, schedule=schedule))


def numbers(words: str, before: str) -> list[int]:
    return [int(found) for found in re.findall(rf"{before} (\d+)", words)]


def test_the_words_of_a_cell_of_r_are_the_schedules_facts() -> None:
    kinds = Counter()
    for graph, schedule, _ in pairs():
        shown = listed(graph, schedule)
        matrices, steps = shown.matrices, schedule.steps.tolist()
        for step, column in product(range(len(steps)), range(graph.n)):
            stage, op = int(matrices.stage_of_step[step]), int(matrices.order[column])
            words = cell_words(shown, "R", step, column)
            assert f"stage {stage + 1}" in words and graph.ops[op].name in words
            if not matrices.R[stage, column]:
                assert "is not computed in" in words
                kinds["empty"] += 1
                continue
            (at,) = numbers(words, "(?:again|time), at step")
            assert steps[at - 1] == op and matrices.stage_of_step[at - 1] == stage
            assert at == step + 1 or steps[step] != op
            if "for the first time" in words:
                assert op not in steps[: at - 1]
                kinds["first"] += 1
                continue
            dropped, needed = numbers(words, "dropped after step"), numbers(words, "needed by .* at step")
            made = set(graph.ops[op].outputs)
            before = at - 1 - steps[: at - 1][::-1].index(op)
            assert dropped or (graph.alias_of >= 0).any()
            read = [k + 1 for k in range(before, at - 1) if made & set(graph.ops[steps[k]].inputs)]
            assert all(max([before, *read]) <= one < at for one in dropped)
            until = steps.index(op, at) if op in steps[at:] else len(steps)
            reads = [k + 1 for k in range(at, until) if made & set(graph.ops[steps[k]].inputs)]
            assert needed == reads[:1]
            assert not needed or graph.ops[steps[needed[0] - 1]].name in words
            kinds["again"] += 1
            kinds["dropped"] += bool(dropped)
    assert min(kinds[kind] for kind in ("empty", "first", "again", "dropped")) > 20


def test_a_hand_that_nearly_points_at_a_cell_of_r_means_it() -> None:
    kinds: Counter[str] = Counter()
    random = Random(1)
    for graph, schedule, _ in pairs():
        shown, axis = listed(graph, schedule), StepAxis.of(graph, schedule, by_cost=False)
        again = ~schedule.first_occurrence
        columns = shown.matrices.column_of_step.tolist()
        ends, length = list(pairwise(axis.edges.tolist())), float(axis.edges[-1])
        for _ in range(20):
            x, y, wide, high = random.uniform(0, length), random.uniform(0, graph.n), length / axis.count, 0.7
            away = [
                max(0.0, (begin - x) / wide, (x - end) / wide, (column - y) / high, (y - column - 1) / high)
                for (begin, end), column in zip(ends, columns, strict=True)
            ]
            step, column = cell_near(shown, axis, "R", (x, y), (wide, high))
            if min(away) > 3:
                assert (step, column) == (axis.step_at(x), int(y))
                kinds["none"] += 1
                continue
            assert columns[step] == column and max(1, away[step]) == pytest.approx(max(1, min(away)))
            drawn = [one for one in np.flatnonzero(again) if away[one] <= 1]
            assert not drawn or again[step]
            kinds["drawn"] += bool(drawn)
            kinds["near"] += away[step] > 1
    assert min(kinds[kind] for kind in ("none", "drawn", "near")) > 10


def test_the_words_of_a_cell_of_s_are_the_schedules_facts() -> None:
    kinds = Counter()
    for graph, schedule, _ in pairs():
        shown = listed(graph, schedule)
        matrices, steps = shown.matrices, schedule.steps.tolist()
        for stage, column in product(range(graph.n), range(graph.n)):
            begin, op = int(np.argmax(matrices.stage_of_step == stage)), int(matrices.order[column])
            words = cell_words(shown, "S", begin, column)
            assert words.startswith(f"{graph.ops[op].name} is ") and f"as stage {stage + 1} starts" in words
            assert (" is held " in words) == bool(matrices.S[stage, column])
            runs = [k + 1 for k, one in enumerate(steps) if one == op]
            before, after = [k for k in runs if k <= begin], [k for k in runs if k > begin]
            made = set(graph.ops[op].outputs)
            reads = [k + 1 for k in range(begin, len(steps)) if made & set(graph.ops[steps[k]].inputs)]
            if " is held " in words:
                assert numbers(words, "computed at step") == before[-1:]
                assert numbers(words, "next used by .* at step") == reads[:1]
                assert reads or "kept to the end" in words
                kinds["held"] += 1
                continue
            assert numbers(words, "first computed at step") == ([] if before else after[:1])
            assert numbers(words, "computed again at step") in ([], after[:1] if before else [])
            dropped = numbers(words, "dropped after step")
            read = [k + 1 for k in range(begin) if made & set(graph.ops[steps[k]].inputs)]
            assert all(max([before[-1], *read]) <= step <= begin for step in dropped)
            kinds["dropped" if dropped else "not yet" if not before else "shared"] += 1
    assert min(kinds[kind] for kind in ("held", "dropped", "not yet")) > 20


def an_axis(*, by_cost: bool) -> StepAxis:
    """Return the axis of a step of which some ops cost nothing."""
    builder = GraphBuilder("costs")
    for number, cost in enumerate((3.0, 0.0, 0.0, 5.0, 1.0, 90.0, 1.0)):
        builder.op(f"op{number}", [], [builder.value(f"v{number}", 4)], cost=cost)
    graph = builder.build()
    return StepAxis.of(graph, Schedule.plain(graph), by_cost=by_cost)


@pytest.mark.parametrize("by_cost", [False, True])
def test_places_and_positions_are_opposites(by_cost: bool) -> None:
    axis = an_axis(by_cost=by_cost)
    for step in range(axis.count):
        if axis.edges[step + 1] > axis.edges[step]:
            for part in (0.0, 0.25, 0.75):
                assert axis.position(float(axis.place(step + part))) == pytest.approx(step + part)
            assert axis.step_at(float(axis.place(step + 0.5))) == step
    assert axis.position(-1e9) == 0.0 and axis.position(1e9) == axis.count
    assert axis.step_at(1e9) == axis.count - 1
    assert np.allclose(axis.edges[:2], [0.0, 3.0] if by_cost else [-0.5, 0.5])


@pytest.mark.parametrize("by_cost", [False, True])
def test_ticks_are_round_and_apart(by_cost: bool) -> None:
    axis = an_axis(by_cost=by_cost)
    low, high = float(axis.edges[0]), float(axis.edges[-1])
    steps, costs = axis.step_ticks(low, high, 7), axis.cost_ticks(low, high, 5)
    assert steps and costs
    for place, words in steps:
        assert place == pytest.approx(float(axis.place(int(words) - 0.5)))
    for place, words in costs:
        at = place if by_cost else float(np.interp(axis.position(place), np.arange(8), axis.costs))
        assert at == pytest.approx(float(words))
    for ticks, most in ((steps, 7), (costs, 5)):
        places = [place for place, _ in ticks]
        assert places == sorted(places) and len(places) <= most + 1
        assert np.diff(places).min(initial=np.inf) >= 0.5 * (high - low) / most
        assert low <= places[0] and places[-1] <= high


def test_ticks_say_different_things_however_far_the_axis_is_zoomed() -> None:
    builder = GraphBuilder("even")
    for number in range(1000):
        builder.op(f"op{number}", [], [builder.value(f"v{number}", 4)], cost=1e-3)
    graph = builder.build(cost_unit=CostUnit.SECONDS)
    for by_cost in (False, True):
        axis = StepAxis.of(graph, Schedule.plain(graph), by_cost=by_cost)
        for width in (1.0, 0.1, 0.01, 0.001):
            low, high = (float(axis.place(1000 * (0.4 + part * width))) for part in (0.0, 1.0))
            words = [said for _, said in axis.cost_ticks(low, high, 5)]
            assert len(set(words)) == len(words) >= 3
            assert axis.step_ticks(low, high, 5)


def test_columns_keep_every_peak_of_the_part_that_is_seen() -> None:
    exploration = exploration_of(training_chain(60))
    shown = exploration.shown
    stack = memory_stack(shown.graph, shown.schedule, shown.timeline)
    for by_cost in (False, True):
        axis = StepAxis.of(shown.graph, shown.schedule, by_cost=by_cost)
        for first, last, most in ((0, 120, 7), (13, 90, 20), (30, 35, 100), (5, 6, 1)):
            starts = axis.columns(first, last, most)
            assert starts[0] == first and (np.diff(starts) > 0).all() and len(starts) <= most
            part = in_columns(stack, starts, last)
            assert part.total.max() == stack.total[first:last].max()
            assert np.allclose(part.layers.sum(axis=0), part.total)


def test_a_span_stays_inside_the_step() -> None:
    exploration = Exploration()
    span = StepSpan(exploration)
    exploration.set_graph(training_chain(30))
    changes: list[tuple[float, float]] = []
    span.changed.connect(lambda: changes.append((span.begin, span.end)))
    assert span.is_whole and span.count == 60
    span.move(0.5)
    span.zoom(3.0)
    assert span.is_whole and not changes
    span.show(40, 70)
    assert (span.begin, span.end) == (30.0, 60.0)
    span.move(-9.0)
    assert (span.begin, span.end) == (0.0, 30.0)
    span.show(20.2, 20.3)
    assert span.end - span.begin == 1.0 and span.begin <= 20.2 and span.end >= 20.3
    span.choose((50, 12))
    assert span.chosen == (12, 50)
    span.show_chosen()
    assert span.begin <= 12 and span.end >= 51
    span.choose((-5, 900))
    assert span.chosen == (0, 59)
    span.show_whole()
    span.show_heights(Scale.OPS, 0.5, 0.5001)  # at least four ops
    low, high = span.heights[Scale.OPS]
    assert 3.5 < 60 * (high - low) < 4.5 and low < 0.5 < high and not span.is_whole
    span.show_whole()
    assert span.is_whole
