from __future__ import annotations

import time
from random import Random

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtWidgets import QToolTip

from app.presenters.bands import Bands, Grouping
from checkmate.units import format_bytes
from tests.app.test_timeline import drawn, move, on_curve, opened, turn
from tests.app.windows import cursor_line, exploration_of
from tests.generated_graphs import training_dag
from tests.graphs_strategies import random_graph, random_steps


def schedules():
    for seed in range(60):
        graph = random_graph(Random(seed))
        exploration = exploration_of(graph)
        yield exploration.shown
        steps = np.asarray(random_steps(Random(seed + 1000), graph))
        if set(steps.tolist()) == set(range(graph.n)):
            exploration.add(steps, budget_bytes=exploration.shown.peak_bytes, solver="any", seconds=0.0)
            yield exploration.known[0]


@pytest.mark.parametrize("grouping", list(Grouping))
def test_bands_are_as_high_as_the_live_bytes(grouping: Grouping) -> None:
    seen = 0
    for shown in schedules():
        live, height = shown.timeline.live_bytes, 500
        if not shown.peak_bytes:
            continue
        bands, steps = Bands.of(shown, grouping), np.arange(len(live))
        owners = bands.owners(steps, height, float(shown.peak_bytes))
        assert np.abs((owners >= 0).sum(axis=1) - live / shown.peak_bytes * height).max() <= 0.51
        for step in steps.tolist():
            here = set(owners[step][(owners[step] >= 0) & (owners[step] < bands.count)].tolist())
            assert all(bands.born[band] <= step <= bands.last[band] for band in here)
            # Each band is in one piece, above those of the groups before it.
            filled = owners[step][owners[step] >= 0]
            assert np.count_nonzero(np.diff(filled)) + bool(len(filled)) == len(np.unique(filled))
        seen += len(bands.groups)
    assert seen > 100


def test_small_bands_are_drawn_with_those_of_their_group() -> None:
    exploration = exploration_of(training_dag(3, 500))
    shown = exploration.shown
    bands = Bands.of(shown, Grouping.KIND)
    steps = np.arange(0, len(shown.schedule.steps), 5)
    owners = bands.owners(steps, 40, float(shown.peak_bytes))
    live = shown.timeline.live_bytes[steps]
    assert np.abs((owners >= 0).sum(axis=1) - live / shown.peak_bytes * 40).max() <= 0.51
    words = {bands.words(int(owner)) for owner in np.unique(owners) if owner >= bands.count}
    assert {"activations: small values", "gradients: small values"} <= words


def band_in_view(explorer, step: int) -> tuple[int, QPoint]:
    curve = explorer.curve
    line = cursor_line(curve, step)
    places = [QPointF(line.x1(), y) for y in np.arange(line.y1(), line.y2(), 1.0)]
    found = [curve.owner_at(place) for place in places]
    bands = curve.answering
    band = max((one for one in set(found) if 0 <= one < bands.count), key=found.count)
    at = [place for place, one in zip(places, found, strict=True) if one == band]
    return band, at[len(at) // 2].toPoint()


def test_a_band_says_what_it_is_and_a_click_selects_its_op(window, qtbot) -> None:
    exploration, explorer = opened(window, qtbot)
    curve, shown, timeline = explorer.curve, exploration.shown, exploration.shown.timeline
    plain = curve.grab().toImage()
    qtbot.keyClick(explorer.graph_view, Qt.Key.Key_V)
    drawn(window, qtbot)
    assert explorer.span.grouping is Grouping.LAYER and curve.grab().toImage() != plain
    band, place = band_in_view(explorer, 45)
    bands = curve.answering
    buffer = int(bands.buffer[band])
    value = int(timeline.buffer_value[buffer])
    move(curve.viewport(), place)
    words = QToolTip.text()
    born, last = int(timeline.buffer_born[buffer]), int(timeline.buffer_last[buffer])
    reader = shown.graph.ops[int(shown.schedule.steps[last])].name
    assert shown.graph.values[value].name in words
    assert format_bytes(int(timeline.buffer_bytes[buffer])) in words
    assert f"made in step {born + 1}" in words and f"freed after step {last + 1}" in words
    assert f"last read by {reader}" in words and "step 46 of" in words
    before = curve.grab().toImage()
    qtbot.mouseClick(curve.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert window.selection.op == shown.graph.producer[value] and window.playhead.step == 45
    drawn(window, qtbot)
    assert curve.grab().toImage() != before  # the selection has a colour of its own


def test_bands_are_stacked_by_what_the_list_says(window, qtbot) -> None:
    exploration, explorer = opened(window, qtbot)
    curve, bar = explorer.curve, explorer.span_bar
    named = {}

    def choose(number: int) -> None:
        qtbot.mouseClick(bar.ways, Qt.MouseButton.LeftButton)
        assert bar.menu.isVisible()
        bar.menu.setActiveAction(bar.menu.actions()[number])
        qtbot.keyClick(bar.menu, Qt.Key.Key_Return)
        drawn(window, qtbot)

    for number, grouping in enumerate(Grouping, 1):
        choose(number)
        assert explorer.span.grouping is grouping and bar.ways.text() == f"Bands by {grouping} ▾"
        named[grouping] = [entry.words for entry in curve.legend_entries()]
    assert named[Grouping.KIND][:2] == ["activations", "gradients"]
    assert "dtype not known" in named[Grouping.DTYPE]
    assert {"for the backward pass", "gradient on its way"} <= set(named[Grouping.REASON])
    assert any(words.startswith("layer") for words in named[Grouping.LAYER])
    choose(0)
    assert explorer.span.grouping is None and curve._fills[0].isVisible() and not curve.bands.isVisible()
    assert exploration.shown is not None


def test_bands_zoom_down_to_one_op(window, qtbot) -> None:
    _, explorer = opened(window, qtbot)
    explorer.span.group_by(Grouping.KIND)
    drawn(window, qtbot)
    curve, at = explorer.curve, on_curve(explorer.curve, 60)
    for _ in range(40):
        turn(curve, at, 1)
        drawn(window, qtbot)
    assert explorer.span.end - explorer.span.begin == 1
    move(curve.viewport(), at)
    assert f"step {int(explorer.span.begin + 0.5) + 1} of" in QToolTip.text()
    owners = curve.bands._owners
    assert (owners == owners[:, :1]).mean() > 0.4  # one step fills the width


@pytest.mark.heavy
def test_ten_thousand_ops_zoom_without_stalls(window, qtbot) -> None:
    """Test it generously: pictures that take longer would be seen as stalls."""
    window.session.exploration.set_graph(training_dag(3, 5000))
    drawn(window, qtbot)
    explorer = window.explorer
    explorer.span.group_by(Grouping.LAYER)
    drawn(window, qtbot)
    at, seconds = on_curve(explorer.curve, 6000), []
    for notch in (1,) * 15 + (-1,) * 15:
        begun = time.perf_counter()
        turn(explorer.curve, at, notch)
        drawn(window, qtbot)
        seconds.append(time.perf_counter() - begun)
    assert np.median(seconds) < 0.5
