from __future__ import annotations

import re

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QApplication, QLabel, QLineEdit, QPushButton, QTreeWidget

from app.actions import ACTIONS
from app.bootstrap import explore
from app.models.recovery import Recent
from app.views.dialogs.model_dialog import ModelDialog
from app.views.dialogs.settings_dialog import KeysDialog
from app.views.window.main_window import MainWindow
from checkmate.catalog.samples import find_sample
from checkmate.errors import UnsafeModelError
from checkmate.request import ModelRequest
from tests.app.windows import button, new_window

pytestmark = pytest.mark.heavy


def profile_dialog(window: MainWindow, qtbot) -> ModelDialog:
    both = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    qtbot.keyClick(window, Qt.Key.Key_O, both)
    return next(iter(window.findChildren(ModelDialog)))


@pytest.fixture
def asked(window, monkeypatch) -> list[ModelRequest]:
    found: list[ModelRequest] = []
    monkeypatch.setattr(window.session, "profile", found.append)
    return found


def test_a_model_is_profiled_as_the_dialog_says(window, qtbot, asked) -> None:
    dialog = profile_dialog(window, qtbot)
    dialog.model.setCurrentText("lstm")
    assert dialog.batch.value() == find_sample("lstm").batch_size  # the sample's own
    dialog.batch.setValue(5)
    dialog.shape.setText("128x64")
    dialog.optimizer.setCurrentText("sgd")
    dialog.precision.setCurrentText("mixed_bfloat16")
    dialog.device.setCurrentText("cpu")
    dialog.target.setCurrentIndex(dialog.target.findText("XLA", Qt.MatchFlag.MatchStartsWith))
    qtbot.keyClick(dialog.shape, Qt.Key.Key_Return)
    options = {"device": "cpu", "batch_chosen": True, "target": "xla"}
    assert asked == [ModelRequest("lstm", 5, None, "sgd", (128, 64), "mixed_bfloat16", **options)]
    again = ModelDialog(asked[0])  # it comes back as it was asked for
    qtbot.addWidget(again)
    assert again.request().target == "xla"


@pytest.mark.parametrize(("model", "loss"), [("net.keras", "mse"), ("other.keras", None)])
def test_the_loss_belongs_to_the_model(qtbot, model: str, loss: str | None) -> None:
    dialog = ModelDialog(ModelRequest("net.keras", loss="mse"))
    qtbot.addWidget(dialog)
    dialog.model.setCurrentText(model)
    assert dialog.request().loss == loss


@pytest.mark.parametrize(
    ("model", "shape", "said"), [("unet", "12,a,3", "is not a shape"), (" ", "", "Name a model")]
)
def test_bad_input_gets_a_sentence_and_nothing_is_lost(window, qtbot, asked, model, shape, said) -> None:
    dialog = profile_dialog(window, qtbot)
    dialog.model.setCurrentText(model)
    dialog.shape.setText(shape)
    button(dialog, "Profile").click()
    assert dialog.isVisible() and not asked
    assert any(said in one.text() and one.isVisible() for one in dialog.findChildren(QLabel))
    assert dialog.shape.text() == shape


@pytest.mark.parametrize("allowed", [False, True])
def test_code_runs_only_after_a_question(window, qtbot, asked, monkeypatch, allowed: bool) -> None:
    monkeypatch.setattr(window, "_allows_code", lambda _: allowed)
    dialog = profile_dialog(window, qtbot)
    dialog.model.setCurrentText("net.py:make")
    button(dialog, "Profile").click()
    assert [(one.model, one.allow_code) for one in asked] == [("net.py:make", True)] * allowed


@pytest.mark.parametrize("typed", [None, 24])
def test_only_a_typed_batch_size_is_held_against_an_example(window, qtbot, asked, monkeypatch, typed) -> None:
    monkeypatch.setattr(window, "_allows_code", lambda _: True)
    dialog = profile_dialog(window, qtbot)
    dialog.model.setCurrentText("train.py:make_step")
    if typed:
        dialog.batch.selectAll()
        qtbot.keyClicks(dialog.batch, str(typed))
    button(dialog, "Profile").click()
    assert [(one.batch_chosen, one.batch_size == typed) for one in asked] == [(bool(typed), bool(typed))]


@pytest.mark.parametrize("batch", [None, 24])
def test_code_named_on_the_command_line_runs_without_a_question(qtbot, monkeypatch, batch) -> None:
    window = new_window(qtbot, batch_size=batch)
    asked: list[ModelRequest] = []
    monkeypatch.setattr(window.session, "profile", asked.append)
    window.trust("train.py:make_step")
    window.open("train.py:make_step")
    options = {"allow_code": True, "batch_chosen": batch is not None}
    assert asked == [ModelRequest("train.py:make_step", batch or 32, **options)]


def test_a_picture_of_what_would_run_code_needs_to_be_allowed(tmp_path) -> None:
    path = tmp_path / "train.py"
    path.write_text("raise SystemExit('it was run')")
    with pytest.raises(UnsafeModelError, match="would run the code in"):
        explore(f"{path}:make_step", screenshot=tmp_path / "out.png")


def test_the_start_page_and_back(window, exploration, qtbot, chain_open) -> None:
    explorer, known = window.explorer, len(exploration.known)
    qtbot.keyClick(window, Qt.Key.Key_W, Qt.KeyboardModifier.ControlModifier)
    assert window._start.isVisible() and not explorer.isVisible()
    button(window._start, "Back to chain").click()
    qtbot.waitUntil(explorer.isVisible)
    assert len(exploration.known) >= known


def test_the_file_menu_lists_what_was_explored(qtbot, tmp_path) -> None:
    recent = Recent(tmp_path / "recent")
    window = new_window(qtbot, recent=recent)
    listed = next(entry.menu() for entry in window.menuBar().actions()[0].menu().actions() if entry.menu())
    listed.aboutToShow.emit()
    (entry,) = listed.actions()
    assert entry.text() == "Nothing was explored yet" and not entry.isEnabled()
    saved = tmp_path / "one.gz"
    saved.write_bytes(b"")
    recent.keep(saved, "net, batch 4")
    listed.aboutToShow.emit()
    (text,) = [entry.text() for entry in listed.actions()]
    name, when = text.split("\t")
    assert name == "net, batch 4" and re.fullmatch(r"\d\d:\d\d", when)


def rows(dialog: KeysDialog) -> list[tuple[str, str]]:
    tree = dialog.findChild(QTreeWidget)
    groups = [tree.topLevelItem(number) for number in range(tree.topLevelItemCount())]
    return [
        (group.child(at).text(0), group.child(at).text(1))
        for group in groups
        for at in range(group.childCount())
        if not group.isHidden() and not group.child(at).isHidden()
    ]


def test_the_space_bar_presses_the_button_that_has_the_focus(window, qtbot, chain_open) -> None:
    with qtbot.waitActive(window):
        window.activateWindow()
    view = window.explorer.graph_view
    closer = next(one for one in window.explorer.graph_panel.findChildren(QPushButton) if one.text() == "+")
    closer.setFocus()
    before = view.zoom_percent
    qtbot.keyClick(closer, Qt.Key.Key_Space)
    assert view.zoom_percent > before and not window.playhead.playing
    view.setFocus()
    qtbot.mouseClick(closer, Qt.MouseButton.LeftButton)  # which leaves the focus where it is
    qtbot.keyClick(window.focusWidget(), Qt.Key.Key_Space)
    assert window.playhead.playing
    window.playhead.play(False)


def test_enter_presses_the_button_that_has_the_focus_once(window, qtbot, chain_open) -> None:
    with qtbot.waitActive(window):
        window.activateWindow()
    pressed: list[str] = []
    explorer = window.explorer
    others = explorer.graph_panel, explorer.area.docks["timeline"], explorer.area.docks["schedules"]
    for panel in others:
        for one in panel.findChildren(QPushButton):
            if one.isVisible() and one.isEnabled() and one.text() in ("+", "By step", "A | B"):
                text = one.text()
                one.clicked.connect(lambda _=False, text=text: pressed.append(text))
                one.setFocus()
                qtbot.keyClick(one, Qt.Key.Key_Return)
                qtbot.keyClick(one, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
                nothing = Qt.KeyboardModifier.NoModifier
                held = QKeyEvent(QEvent.Type.KeyPress, Qt.Key.Key_Return, nothing, "", True)
                QApplication.sendEvent(one, held)
    assert sorted(pressed) == ["+", "A | B", "By step"]
    explorer.graph_view.setFocus()
    qtbot.keyClick(explorer.graph_view, Qt.Key.Key_Return)
    assert len(pressed) == 3


def test_a_frame_shows_that_keys_go_to_the_graph_or_to_a_list(window, qtbot, chain_open) -> None:
    with qtbot.waitActive(window):
        window.activateWindow()
    explorer = window.explorer
    panel = explorer.area.docks["solving"].widget()
    for taker in (explorer.graph_view, explorer.layers._list, explorer.schedules._list, panel):
        explorer.budget.setFocus()
        explorer.turns.finish()
        before = taker.grab().toImage()
        taker.setFocus()
        assert taker.hasFocus() and taker.grab().toImage() != before


def test_help_lists_every_command_and_finds_one(window, qtbot) -> None:
    qtbot.keyClick(window, Qt.Key.Key_F1)
    dialog = next(iter(window.findChildren(KeysDialog)))
    assert {entry.full_words for entry in ACTIONS} <= {words for words, _ in rows(dialog)}
    field = dialog.findChild(QLineEdit)
    qtbot.keyClicks(field, "ctrl+k")
    assert rows(dialog) == [("Search everything", "Ctrl+K")]
    field.setText("playback")
    assert ("Go to the peak", "P") in rows(dialog)  # a whole menu
    field.setText("nonsense")
    assert rows(dialog) == []
    assert any(one.isVisible() and "Nothing" in one.text() for one in dialog.findChildren(QLabel))
