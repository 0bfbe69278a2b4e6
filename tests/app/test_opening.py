from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

from app.layout.grouping import visible_groups
from app.models import opening
from app.models.opening import Opened
from app.models.recovery import ENDING, kept_as
from app.views.dialogs.export_dialog import ExportDialog
from checkmate.errors import FormatError
from checkmate.formats import write_graph
from checkmate.solvers.constraints import Constraints
from tests.app.test_window import facts
from tests.app.windows import at_four, training_chain
from tests.unit.hlo.dumps import chain

pytestmark = pytest.mark.heavy  # large graphs are opened and freed


@pytest.fixture(autouse=True)
def everything_aside(monkeypatch):
    monkeypatch.setattr(opening, "LARGE_BYTES", 0)


def test_the_last_file_asked_for_opens(window, exploration, qtbot, tmp_path: Path) -> None:
    for layers in (30, 5, 12):
        write_graph(tmp_path / f"{layers}.json", training_chain(layers))
        window.open(str(tmp_path / f"{layers}.json"))
    assert exploration.graph is None and "Reading" in window.statusBar().currentMessage()
    opened = []
    exploration.graph_changed.connect(lambda: opened.append(exploration.graph.n))
    qtbot.waitUntil(lambda: exploration.graph is not None, timeout=20000)
    qtbot.wait(200)
    assert opened == [24]
    qtbot.waitUntil(lambda: exploration.what_if.needed_bytes > 0, timeout=60000)


def test_a_saved_exploration_opens_the_same_in_a_thread(window, exploration, qtbot, tmp_path: Path) -> None:
    path = tmp_path / "saved.exploration.json.gz"
    exploration.set_graph(training_chain())
    exploration.set_budget(int(exploration.plain.peak_bytes * 0.8))
    saved = facts(exploration)
    assert window.session.save(path)
    exploration.set_graph(training_chain(5))
    with qtbot.waitSignal(exploration.graph_changed, timeout=20000):
        window.open(str(path))
    assert facts(exploration)[0] == saved[0] and exploration.budget_bytes == saved[2]


def test_a_dump_of_xla_opens_as_a_graph(window, exploration, qtbot, tmp_path: Path) -> None:
    path = tmp_path / "module_0001.jit_step.txt"
    path.write_text(chain(4))
    with qtbot.waitSignal(exploration.graph_changed, timeout=20000):
        window.open(str(path))
    assert exploration.graph.name == "jit_step" and window.records.dialog is None


def test_a_recent_exploration_is_read_by_the_name_that_the_user_knows(window, exploration, qtbot, tmp_path):
    exploration.set_graph(at_four())
    path = tmp_path / f"{kept_as(exploration.graph)}{ENDING}"
    assert window.session.save(path) and path.name[:16].isalnum()
    with qtbot.waitSignal(exploration.graph_changed, timeout=20000):
        window.open(str(path))
        assert window.statusBar().currentMessage() == "Reading chain, batch 4…"


def test_a_broken_file_is_one_sentence_in_a_thread(window, qtbot, tmp_path: Path) -> None:
    exploration, path = window.session.exploration, tmp_path / "broken.json"
    exploration.set_graph(training_chain())
    before = exploration.graph
    path.write_text("{")
    with qtbot.waitSignal(window.session.failed, timeout=20000) as failure:
        window.open(str(path))
    assert str(path) in failure.args[0] and failure.args[1] and exploration.graph is before


def test_a_window_closes_while_it_reads(window, qtbot, tmp_path: Path) -> None:
    write_graph(tmp_path / "g.json", training_chain(200))
    window.open(str(tmp_path / "g.json"))
    window.close()
    qtbot.wait(300)
    assert window.session.exploration.graph is None


def test_the_earlier_exploration_is_freed_without_the_collector(window, qtbot, tmp_path: Path) -> None:
    before, frozen, first = [], [], gc.get_freeze_count()
    for layers in (30, 31, 32, 33, 34):
        write_graph(tmp_path / f"{layers}.json", training_chain(layers))
        with qtbot.waitSignal(window.session.exploration.graph_changed, timeout=20000):
            window.open(str(tmp_path / f"{layers}.json"))
        qtbot.waitUntil(lambda: window.session.exploration.what_if.needed_bytes > 0, timeout=60000)
        exploration = window.session.exploration
        window.session.constrain(Constraints(keep=(exploration.graph.values[3].name,)))
        qtbot.waitUntil(lambda: len(window.session.exploration.known) > 2, timeout=60000)
        exploration.show(exploration.known[0])
        parts = exploration.what_if, exploration.graph, exploration.known[0]
        before.append([weakref.ref(part) for part in parts])
        del parts
        frozen.append(gc.get_freeze_count())
    assert all(count > first for count in frozen)
    assert [[part() is None for part in parts] for parts in before] == [[True] * 3] * 4 + [[False] * 3]


def test_files_that_could_not_be_opened_are_freed(window, qtbot, tmp_path: Path, monkeypatch) -> None:
    held = []

    class Large(dict):
        pass

    def read(path: Path, recent: object) -> Opened:
        large = Large(path=path)
        held.append(weakref.ref(large))
        raise FormatError(f"{large['path']} is broken")

    monkeypatch.setattr("app.models.session.read_opened", read)
    for number in range(3):
        (tmp_path / f"{number}.json").write_text("{}")
        with qtbot.waitSignal(window.session.failed, timeout=20000):
            window.open(str(tmp_path / f"{number}.json"))
    gc.collect()
    assert [large() for large in held] == [None] * 3


def test_a_closed_export_dialog_keeps_no_graph(window, qtbot, tmp_path: Path) -> None:
    write_graph(tmp_path / "g.json", training_chain(9))
    with qtbot.waitSignal(window.session.exploration.graph_changed, timeout=20000):
        window.open(str(tmp_path / "g.json"))
    graph = weakref.ref(window.session.exploration.graph)
    dialog = ExportDialog(window.session, window.theme, window)
    dialog.open()
    dialog.reject()
    write_graph(tmp_path / "h.json", training_chain(8))
    with qtbot.waitSignal(window.session.exploration.graph_changed, timeout=20000):
        window.open(str(tmp_path / "h.json"))
    del dialog
    qtbot.waitUntil(lambda: graph() is None, timeout=20000)


def test_an_opened_graph_makes_no_reference_cycles() -> None:
    found = Opened.of(training_chain(40))
    for known in found.what_if.known:
        known.prepare()
    visible_groups(found.what_if.folding.root, frozenset({found.what_if.folding.root.key}))
    gc.collect()
    gc.disable()
    try:
        del found, known
        assert gc.collect() == 0
    finally:
        gc.enable()
