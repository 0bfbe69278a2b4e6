from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from app.presenters.lines_across import (
    DEVICE,
    FAR,
    NO_CARD,
    LineKind,
    MemoryLine,
    capacity_of,
    card_entries,
    memory_lines,
    spread,
    top_with,
)
from checkmate.catalog.cards import common_cards
from checkmate.ir import Device
from checkmate.ir.result import MeasuredSchedule
from checkmate.memory.placement import place
from tests.app.windows import exploration_of, new_window, training_chain

pytestmark = pytest.mark.heavy
GIB = 2**30


def shown():
    exploration = exploration_of(training_chain())
    return exploration.shown


def by_kind(lines: tuple[MemoryLine, ...]) -> dict[LineKind, MemoryLine]:
    return {line.kind: line for line in lines}


def test_each_line_says_what_its_bytes_are() -> None:
    found = shown()
    placement = place(found.graph, found.schedule, found.timeline)
    card = capacity_of(str(16 * GIB), None, common_cards())
    facts = {"bound_bytes": 3 * 2**20, "placement": placement, "capacity": card}
    lines = by_kind(memory_lines(LineKind, found, **facts))
    assert set(lines) == set(LineKind)
    assert lines[LineKind.REQUESTED].bytes == found.timeline.live_bytes.max()
    assert lines[LineKind.ALLOCATED].bytes == placement.allocated.max() >= placement.requested.max()
    assert lines[LineKind.CAPACITY].bytes == 16 * GIB - common_cards().reserve_bytes
    words = {kind: line.words for kind, line in lines.items()}
    assert words[LineKind.REQUESTED].endswith("predicted") and words[LineKind.BOUND].endswith("proved")
    assert words[LineKind.ALLOCATED].endswith("estimated") and "for a step" in words[LineKind.CAPACITY]
    some = memory_lines({LineKind.BOUND, LineKind.REQUESTED}, found, **facts)
    assert [line.kind for line in some] == [LineKind.REQUESTED, LineKind.BOUND]


def test_a_measurement_takes_the_place_of_the_replica() -> None:
    found = shown()
    placement = place(found.graph, found.schedule, found.timeline)
    steps = tuple(found.schedule.steps.tolist())
    measured = MeasuredSchedule(steps, (1,) * len(steps), 77 * 2**20, 1.0)
    (line,) = memory_lines({LineKind.ALLOCATED}, found, placement=placement, measured=measured)
    assert line.bytes == 77 * 2**20 and line.words == "allocated 77.0 MiB, measured"


def test_the_device_is_a_card_only_where_it_is_a_gpu() -> None:
    cards, graph = common_cards(), training_chain()
    assert capacity_of(DEVICE, graph, cards) is None and capacity_of(NO_CARD, graph, cards) is None
    cpu = dataclasses.replace(graph, device=Device("Xeon", "cpu", 64 * GIB))
    assert capacity_of(DEVICE, cpu, cards) is None
    gpu = dataclasses.replace(graph, device=Device("H100", "gpu", 80 * GIB))
    own = capacity_of(DEVICE, gpu, cards)
    assert own is not None and own.memory_bytes == 80 * GIB and own.step_bytes < 80 * GIB
    keys = [entry.key for entry in card_entries(cpu, cards)]
    assert keys == [NO_CARD, *(str(size.memory_bytes) for size in cards.sizes)]
    assert [entry.key for entry in card_entries(gpu, cards)][:2] == [NO_CARD, DEVICE]
    assert capacity_of("nonsense", gpu, cards) is None


def test_a_far_line_does_not_squeeze_the_curve() -> None:
    line = MemoryLine(LineKind.CAPACITY, 1000, "", "", "")
    assert top_with((line,), 900) > 1000
    assert top_with((line,), 1000 / FAR - 1) == 1000 / FAR - 1
    assert top_with((), 5) == 5


def test_lines_at_one_height_are_both_seen(window, qtbot, chain_open) -> None:
    curve = window.explorer.curve
    window.explorer.turns.finish()
    shown = window.session.exploration.shown
    half, kinds = shown.peak_bytes // 2, (LineKind.REQUESTED, LineKind.BOUND)
    same = [MemoryLine(kind, half, "", "", "") for kind in kinds]
    curve.edge_lines.show_lines(tuple(same), curve._size)
    place = curve.getPlotItem().vb.mapToScene(0, curve.edge_lines.height_of(same[0]))
    y = round(curve.mapFromScene(place).y())
    image = curve.grab().toImage()
    places = [(x, y + by) for x in range(60, image.width() - 20) for by in (-1, 0, 1)]
    seen = np.array([image.pixelColor(*place).getRgb()[:3] for place in places])
    for role in ("forward", "muted"):  # between two rows of pixels both are somewhat paler
        apart = np.abs(seen - curve._theme.color(role).getRgb()[:3]).max(axis=1)
        assert (apart < 48).sum() > 20, role


def test_words_cover_neither_each_other_nor_what_is_there() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        taken = [(20.0, y, 90.0, y + 14) for y in rng.uniform(0, 90, 2)]
        wanted = [(60.0 - 10 * at, y, 100.0, y + 14) for at, y in enumerate(rng.uniform(-5, 120, 4))]
        tops = spread(wanted, taken, 0.0, 200.0)
        new = [(x, top, right, top + 14) for top, (x, _, right, _) in zip(tops, wanted, strict=True)]
        boxes = taken + new
        for at in range(2, len(boxes)):
            assert boxes[at][1] >= 0 and boxes[at][3] <= 200
            for other in boxes[:at]:
                assert boxes[at][3] <= other[1] + 1e-9 or other[3] <= boxes[at][1] + 1e-9
    below = spread([(0, 48, 9, 58), (0, 50, 9, 60), (0, 51, 9, 61)], [(0, 50, 9, 60)], 0, 100)
    assert below == [40, 60, 70]  # in order, whatever is in the way
    assert spread([(0, 40, 9, 50)], [(20, 0, 90, 99)], 0, 100) == [40]  # beside it, nothing is in the way


def test_lines_are_chosen_in_the_menu_by_keys(window, exploration, qtbot, chain_open) -> None:
    explorer = window.explorer
    curve, lines = explorer.curve, explorer.lines
    assert not curve.edge_lines.lines  # there is no card yet
    window.activateWindow()
    for keys in ("r", "l"):
        window.commands["view.lines"].trigger()
        qtbot.waitUntil(explorer.lines_menu.isVisible)
        qtbot.keyClick(explorer.lines_menu, keys)
    wanted = {LineKind.REQUESTED, LineKind.BOUND, LineKind.CAPACITY}
    assert lines.choice.wanted == wanted
    kinds = {LineKind.REQUESTED, LineKind.BOUND}
    qtbot.waitUntil(lambda: {line.kind for line in curve.edge_lines.lines} == kinds)
    line = by_kind(curve.edge_lines.lines)[LineKind.REQUESTED]
    box = curve.getPlotItem().vb
    top = box.rect().height() * (1 - line.bytes / (curve._top() * curve._size))
    assert curve.edge_lines.height_of(line) == pytest.approx(top, abs=0.5)
    # Named at the plot's edge: in the legend too, the lines would take height from the curve.
    assert not any("requested" in entry.words for entry in curve.legend_entries())
    assert any("requested" in line.words for line, *_ in curve.edge_lines.placed())
    assert exploration.least_possible == by_kind(curve.edge_lines.lines)[LineKind.BOUND].bytes


def test_the_allocated_peak_is_placed_only_while_it_is_wanted(window, exploration, qtbot, chain_open) -> None:
    explorer = window.explorer
    assert not explorer.placing.client.process.running
    explorer.lines.choice.switch(LineKind.ALLOCATED)
    qtbot.waitUntil(lambda: LineKind.ALLOCATED in by_kind(explorer.curve.edge_lines.lines), timeout=30_000)
    assert by_kind(explorer.curve.edge_lines.lines)[LineKind.ALLOCATED].words.endswith("estimated")
    explorer.lines.choice.switch(LineKind.ALLOCATED)
    assert not explorer.placing.client.process.running
    explorer.span.toggle_addresses()
    explorer.lines.choice.switch(LineKind.ALLOCATED)
    explorer.lines.choice.switch(LineKind.ALLOCATED)
    exploration.show(exploration.known[0])
    assert explorer.placing.busy  # the addresses still want it


def test_a_card_far_above_is_named_at_the_edge(window, qtbot, chain_open) -> None:
    curve, choice = window.explorer.curve, window.explorer.lines.choice
    before = curve._top()
    choice.choose_card(str(8 * GIB))
    qtbot.waitUntil(lambda: bool(curve.edge_lines.lines))
    assert curve._top() == before
    ((line, y, words),) = curve.edge_lines.placed()
    assert line.kind is LineKind.CAPACITY and y < 0 <= words.top()
    assert words.bottom() < curve.getPlotItem().vb.height() / 2
    assert curve.edge_lines._said(line, above=True).startswith("↑ 8 GiB card: 5.25 GiB")


def test_the_choice_is_there_in_the_next_window(qtbot, qapp, settings) -> None:
    for first in (True, False):
        made = new_window(qtbot, settings=settings)
        choice = made.line_choice
        if first:
            choice.choose_card(str(24 * GIB))
            choice.want({LineKind.REQUESTED, LineKind.BOUND})
    assert choice.card == str(24 * GIB) and choice.wanted == {LineKind.REQUESTED, LineKind.BOUND}
    made.line_choice.want(())
    assert new_window(qtbot, settings=settings).line_choice.wanted == frozenset()
