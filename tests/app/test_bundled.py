from __future__ import annotations

from pathlib import Path

from app.bootstrap import require_openable
from app.theme import load_icon
from checkmate.catalog.bundled import find_graph
from checkmate.formats import read_any_graph


def test_the_icon_has_every_size(qapp) -> None:
    sizes = {(size.width(), size.height()) for size in load_icon().availableSizes()}
    assert sizes == {(edge, edge) for edge in (16, 24, 32, 48, 64, 128, 256)}


def test_the_bundled_graph_opens_by_name_and_can_be_exported(
    window, qtbot, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    require_openable("unet-b8.graph")
    with qtbot.waitSignal(window.session.exploration.graph_changed, timeout=20000):
        window.open("unet-b8.graph")
    assert (
        window.session.exploration.graph.fingerprint
        == read_any_graph(find_graph("unet-b8.graph")).fingerprint
    )
    assert window._export.isEnabled()


def test_the_menu_adds_the_program_to_the_desktops_menu(window, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    action = next(
        a for m in window.menuBar().actions() for a in m.menu().actions() if "applications menu" in a.text()
    )
    action.trigger()
    assert (tmp_path / "applications" / "checkmate-explorer.desktop").is_file()
    assert str(tmp_path) in window.statusBar().currentMessage()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "applications" / "checkmate-explorer.desktop"))
    action.trigger()
    assert "Cannot make" in window.notice.text
