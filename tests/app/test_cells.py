from __future__ import annotations

from random import Random

import numpy as np
import pytest

from app.models.exploration import Exploration
from app.models.span import StepSpan
from app.presenters.axes import StepAxis
from app.presenters.matrix_image import (
    Cells,
    compared_image,
    computed_image,
    density,
    held_spans,
    held_strength,
    in_order_of,
)
from app.presenters.memory_curve import in_columns, memory_stack
from checkmate.ir import CostUnit, GraphBuilder, Schedule
from tests.app.test_compare import pairs
from tests.app.windows import exploration_of, training_chain


def windows(n: int):
    yield Cells.all_of(n), (n, n)
    for seed in range(4):
        random = Random(seed)
        top, left = random.randrange(n), random.randrange(n)
        cells = Cells(top, random.randint(top + 1, n), left, random.randint(left + 1, n))
        yield cells, cells.shape(random.randint(1, 9), random.randint(1, 9))


def test_a_pixel_is_as_dense_as_the_cells_below_it() -> None:
    for graph, schedule, _ in pairs():
        matrices = schedule.matrices(graph)
        for cells, (height, width) in windows(graph.n):
            found = density(*held_spans(matrices), cells, (height, width), graph.n)
            part = matrices.S[cells.top : cells.bottom, cells.left : cells.right].astype(float)
            # Rows are cut at equal heights, a pixel may begin within one; columns are whole.
            fine = np.repeat(part, height, axis=0).reshape(height, -1, part.shape[1]).mean(axis=1)
            bins = cells.column_bins(graph.n, width)[cells.left : cells.right]
            expected = np.stack([fine[:, bins == at].mean(axis=1) for at in range(width)], axis=1)
            assert np.allclose(found, expected)


def test_a_single_held_cell_stays_visible_and_no_empty_one_is_drawn() -> None:
    for graph, schedule, _ in pairs():
        matrices = schedule.matrices(graph)
        for most in (2, 5, graph.n):
            cells = Cells.all_of(graph.n)
            strength = held_strength(graph, matrices, cells, most, most)
            everywhere = density(*held_spans(matrices), cells, strength.shape, graph.n)
            assert ((strength > 0.15) == (everywhere > 1e-9)).all() and strength.max(initial=0) <= 1


def test_a_part_of_a_picture_is_that_part_of_the_whole() -> None:
    for graph, a, b in pairs():
        first, second = a.matrices(graph), b.matrices(graph)
        whole = computed_image(graph, first, graph.n)
        both = {which: compared_image(first, second, which, graph.n) for which in "RS"}
        for cells, _ in windows(graph.n):
            part = np.s_[cells.top : cells.bottom, cells.left : cells.right]
            assert np.array_equal(computed_image(graph, first, graph.n, cells), whole[part])
            for which, image in both.items():
                assert np.array_equal(compared_image(first, second, which, graph.n, cells), image[part])


def test_large_comparisons_have_parts_too(monkeypatch) -> None:
    monkeypatch.setattr("app.presenters.matrix_image._EXACT", 0)
    for graph, a, b in pairs():
        first, second = a.matrices(graph), b.matrices(graph)
        for cells, _ in windows(graph.n):
            part = np.s_[cells.top : cells.bottom, cells.left : cells.right]
            for which in "RS":
                image = compared_image(first, second, which, graph.n, cells)
                one, other = getattr(first, which), in_order_of(first.order, second, which)
                assert np.array_equal(image > 0, (one | other)[part])


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
    span.show_cells((10, 20), (3, 3.5))
    assert span.rows == pytest.approx((10, 20)) and span.columns[1] - span.columns[0] == 4.0
    span.show_whole()
    assert span.is_whole
