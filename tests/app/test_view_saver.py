from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ET
from itertools import pairwise

import numpy as np
import pytest
from PySide6.QtGui import QGuiApplication, QImage

from app.presenters import view_tables as tables
from app.presenters.memory_curve import even_starts, in_columns, memory_stack
from app.presenters.search import COMMAND, PaletteEntry, search
from app.views.common.view_saver import PICTURE_SCALE
from checkmate.cli.main import main
from checkmate.formats.graph import write_graph
from tests.app.windows import exploration_of, smaller, training_chain

pytestmark = pytest.mark.heavy  # many tests of a second or two

NAMES = ["Layers", "Schedules", "Training graph", "Memory curve", "R", "S"]
NAMES += ["Frontier", "Solving", "Memory now"]


@pytest.fixture
def explored(explored, exploration):
    explored.explorer.transport.go_to_peak()
    exploration.begin_solve(1)
    exploration.solve.best.append((0.5, 40.0))
    return explored


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_every_view_gives_pictures_and_data(explored, tmp_path) -> None:
    saver = explored.explorer.saver
    assert [view.name for view in saver.views] == NAMES
    for view in saver.views:
        png, svg, data = (tmp_path / f"{view.name}.{kind}" for kind in ("png", "svg", "csv"))
        assert (
            saver.save_picture(view.widget, png)
            and saver.save_picture(view.widget, svg)
            and saver.save_data(view, data)
        )
        image = QImage(str(png))
        assert image.width() == view.widget.width() * PICTURE_SCALE
        colors = {image.pixel(x, y) for x in range(0, image.width(), 3) for y in range(0, image.height(), 3)}
        assert len(colors) > 3
        assert ET.parse(svg).getroot().tag.endswith("svg") and svg.stat().st_size > 500
        rows = read(data.read_text())
        assert rows and all(None not in row and None not in row.values() for row in rows)


def test_clipboard_gets_the_same(explored) -> None:
    saver, clipboard = explored.explorer.saver, QGuiApplication.clipboard()
    curve = saver.views[3]
    saver.copy_data(curve)
    assert clipboard.text() == curve.data.view_table().csv()
    saver.copy_picture(curve)
    assert clipboard.image().width() == curve.widget.width() * PICTURE_SCALE
    assert "Copied the picture of Memory curve" in explored.statusBar().currentMessage()


def test_a_name_of_no_picture_and_a_missing_folder_are_refused(explored, tmp_path) -> None:
    saver, said = explored.explorer.saver, []
    explored.session.failed.connect(lambda sentence, hint: said.append(sentence))
    assert not saver.save_picture(saver.views[0].widget, tmp_path / "x.jpeg2")
    assert not saver.save_picture(saver.views[0].widget, tmp_path / "nowhere" / "x.png")
    assert "no picture's name" in said[0] and "cannot write" in said[1] and len(said) == 2
    assert list(tmp_path.iterdir()) == []


def test_tables_say_what_the_schedule_says(explored) -> None:
    exploration = explored.session.exploration
    shown, graph = exploration.shown, exploration.graph
    steps = tables.steps_table(shown).rows
    assert [row[2] for row in steps] == shown.schedule.steps.tolist()
    assert max(row[5] for row in steps) == shown.peak_bytes
    assert all(row[5] == sum(row[6:]) for row in steps)
    assert sum(row[4] for row in steps) == shown.schedule.recomputations > 0
    ops = tables.ops_table(shown).rows
    assert sum(row[7] for row in ops) == len(shown.schedule.steps)
    assert all(shown.schedule.steps[row[8] - 1] == row[0] for row in ops)
    cells = np.zeros_like(shown.matrices.S)
    column = {op: i for i, op in enumerate(shown.matrices.order.tolist())}
    for op, _, begin, end in tables.held_table(shown).rows:
        cells[begin - 1 : end, column[op]] = True
    assert np.array_equal(cells, shown.matrices.S)
    assert len(tables.computed_table(shown).rows) == np.count_nonzero(shown.matrices.R)
    layers = tables.layers_table(graph).rows
    assert sum(row[1] + row[2] for row in layers) == graph.n
    assert sum(row[5] for row in layers) == pytest.approx(graph.base_cost)
    frontier = tables.frontier_table(exploration.known, exploration.frontier).rows
    peaks = [row[0] for row in frontier if row[1] == "schedule"]
    assert peaks == [found.peak_bytes for found in exploration.known]
    now = tables.moment_table(explored.explorer.inspector.hotspot.now).rows
    assert sum(row[1] for row in now) == shown.peak_bytes


def entries(*titles: str, kind: str = COMMAND) -> list[PaletteEntry]:
    return [PaletteEntry(kind, title, "", lambda: None) for title in titles]


def test_palette_finds_by_words_and_by_letters() -> None:
    found = entries("Solve for this budget", "Resolve", "Save exploration…", "Stop here")
    found += entries("solver_layer", kind="layer")
    titles = ["solver_layer", "Solve for this budget", "Resolve"]
    assert [e.title for e in search("solve", found).entries] == titles
    assert [e.title for e in search("> solve", found).entries] == ["Solve for this budget", "Resolve"]
    assert [e.title for e in search("budget sol", found).entries] == ["Solve for this budget"]
    assert [e.title for e in search("svexp", found).entries] == ["Save exploration…"]
    assert [e.kind for e in search("", found).entries] == [COMMAND] * 4 and search("zzz", found).entries == ()


def test_a_curve_of_many_steps_is_thinned_without_losing_a_peak() -> None:
    exploration = exploration_of(training_chain(60))
    shown = smaller(exploration)
    stack = memory_stack(shown.graph, shown.schedule, shown.timeline)
    for most in (1, 7, 50, 10**6):
        count = len(stack.total)
        starts = even_starts(count, most)
        thin = in_columns(stack, starts, count)
        assert len(thin.total) == min(most, count) == len(starts) and starts[0] == 0
        assert thin.total.max() == shown.peak_bytes and np.allclose(thin.layers.sum(axis=0), thin.total)
        for column, (begin, end) in enumerate(pairwise([*starts.tolist(), count])):
            assert thin.total[column] == stack.total[begin:end].max()
            assert thin.recomputed[column] == stack.recomputed[begin:end].any()


def test_the_command_line_reads_the_saved_schedule(explored, qtbot, tmp_path, capsys) -> None:
    session, found = explored.session, explored.session.exploration.shown
    graph, schedule = tmp_path / "g.json", tmp_path / "s.json"
    write_graph(graph, found.graph)
    with qtbot.waitSignal(session.noticed, timeout=10000) as notice:
        assert session.save_schedule(found, schedule)
    assert "checkmate export MODEL s.json -g GRAPH" in notice.args[0]
    assert main(["check", str(graph), str(schedule), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["peak_bytes"] == found.peak_bytes and said["cost"] == pytest.approx(found.cost)
    with qtbot.waitSignal(session.failed, timeout=10000):
        assert not session.save_schedule(found, tmp_path / "none" / "s.json")
