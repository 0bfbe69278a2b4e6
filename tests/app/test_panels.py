from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QPoint, QRect, QSettings, QSize, Qt

from app.views.common.panel import PanelDock
from app.views.window.main_window import MainWindow
from app.views.window.panel_area import PanelArea
from tests.app.windows import menu_action, new_window, open_chain

pytestmark = pytest.mark.heavy  # floating windows, without a screen

Windows = Callable[[tuple[int, int]], MainWindow]


@pytest.fixture
def windows(qtbot, settings: QSettings) -> Windows:
    def make(size: tuple[int, int]) -> MainWindow:
        window = new_window(qtbot, settings=settings)
        window.resize(*size)
        window.show()
        open_chain(window, qtbot)
        settle(qtbot)
        return window

    return make


def settle(qtbot) -> None:
    qtbot.wait(60)


def fold_button(dock: PanelDock):
    return next(one for one in dock.findChildren(type(dock._fold)) if one.objectName() == "fold")


def sizes(area: PanelArea) -> dict[str, tuple[int, int]]:
    return {name: (dock.width(), dock.height()) for name, dock in area.docks.items()}


def near(found: dict[str, tuple[int, int]], wanted: dict[str, tuple[int, int]]) -> bool:
    """Return whether all sizes are the same, but for some pixels of height."""
    return all(
        found[name][0] == wide and abs(found[name][1] - high) < 30 for name, (wide, high) in wanted.items()
    )


def test_a_panel_folds_to_its_head_and_comes_back_as_it_was(qtbot, windows: Windows) -> None:
    area = windows((1590, 960)).explorer.area
    before = sizes(area)
    dock = area.docks["layers"]
    qtbot.mouseClick(fold_button(dock), Qt.MouseButton.LeftButton)
    settle(qtbot)
    assert dock.height() < 60 and not dock.panel.isVisible()
    assert sizes(area)["inspector"][1] > before["inspector"][1] + 100
    assert dock.width() == before["layers"][0]
    qtbot.mouseClick(fold_button(dock), Qt.MouseButton.LeftButton)
    settle(qtbot)
    assert near(sizes(area), before) and dock.panel.isVisible()


def test_a_closed_panel_comes_back_by_its_command(qtbot, windows: Windows) -> None:
    window = windows((1590, 960))
    area, entry = window.explorer.area, menu_action(window, "Inspector panel")
    assert entry.isChecked()
    entry.trigger()
    assert not area.is_open("inspector") and not entry.isChecked()
    entry.trigger()
    assert area.is_open("inspector") and entry.isChecked()


@pytest.mark.parametrize("name", ["inspector", "timeline", "graph"])
def test_a_double_click_on_a_head_gives_a_panel_all_the_room(qtbot, windows: Windows, name: str) -> None:
    window = windows((1590, 960))
    area = window.explorer.area
    before = sizes(area)
    part = area.centralWidget() if name == "graph" else area.docks[name]
    head = (part if name == "graph" else part.panel).head_bar
    at = QPoint(head.width() // 3, 6)
    qtbot.mouseDClick(head, Qt.MouseButton.LeftButton, pos=at)
    settle(qtbot)
    assert part.width() > 0.98 * area.width() and part.height() > 0.95 * area.height()
    menu_action(window, "Select nothing, or stop solving").trigger()
    settle(qtbot)
    assert near(sizes(area), before) and area.centralWidget().isVisible()
    qtbot.mouseDClick(head, Qt.MouseButton.LeftButton, pos=at)
    qtbot.mouseDClick(head, Qt.MouseButton.LeftButton, pos=at)
    settle(qtbot)
    assert near(sizes(area), before)
    qtbot.mouseDClick(head, Qt.MouseButton.LeftButton, pos=at)
    menu_action(window, "Layers panel").trigger()  # it was open, and is asked to close
    settle(qtbot)
    assert not area.is_open("layers") and area.is_open("schedules") and area.centralWidget().isVisible()


def test_all_panels_go_back_to_where_they_were(qtbot, windows: Windows) -> None:
    window = windows((1590, 960))
    area = window.explorer.area
    before = sizes(area)
    area.docks["inspector"].setFloating(True)
    area.toggle("schedules")
    area.addDockWidget(Qt.DockWidgetArea.LeftDockWidgetArea, area.docks["budget"])
    fold_button(area.docks["timeline"]).click()
    menu_action(window, "Put the panels back").trigger()
    settle(qtbot)
    assert near(sizes(area), before)
    assert area.dockWidgetArea(area.docks["budget"]) is Qt.DockWidgetArea.RightDockWidgetArea


@pytest.mark.parametrize("size", [(1000, 640), (1100, 700), (1366, 720), (1590, 960)])
def test_every_panel_is_whole_in_a_window_of_any_size(qtbot, windows: Windows, size: tuple[int, int]) -> None:
    window = windows((1200, 800))
    window.resize(*size)
    settle(qtbot)
    area = window.explorer.area
    assert window.size() == QSize(*size)  # no panel makes it larger
    seen = {name: area_rect(area, dock) for name, dock in area.docks.items() if in_front(dock)}
    seen["graph"] = area_rect(area, area.centralWidget())
    for name, rect in seen.items():
        assert area.rect().contains(rect), name
        assert not any(rect.intersects(other) for also, other in seen.items() if also != name), name
    assert stacked(area) == (size[1] > 900) == ("solving" in seen) and "inspector" in seen


def stacked(area: PanelArea) -> bool:
    """Return whether solving and schedules lie above each other. Otherwise they are tabs."""
    return area.docks["schedules"] not in area.tabifiedDockWidgets(area.docks["solving"])


@pytest.mark.parametrize("size", [(1366, 768), (1600, 1000)])
def test_the_answer_has_the_room(qtbot, windows: Windows, size: tuple[int, int]) -> None:
    explorer = windows(size).explorer
    timeline, graph = explorer.area.docks["timeline"], explorer.area.centralWidget()
    assert timeline.y() < graph.y() and timeline.height() > graph.height()
    helps = explorer.inspector.memory._list
    qtbot.waitUntil(lambda: helps.model().rowCount() > 0)
    assert helps.isVisible() and helps.viewport().height() >= 3 * helps.sizeHintForRow(0)
    assert in_front(explorer.area.docks["budget"]) and in_front(explorer.area.docks["schedules"])


def test_why_nothing_fits_is_not_behind_a_tab(qtbot, windows: Windows) -> None:
    explorer = windows((1366, 768)).explorer
    solving, schedules = explorer.area.docks["solving"], explorer.area.docks["schedules"]
    field = explorer.budget._entry
    for budget, fits in (("1%", False), ("100%", True)):
        field.setFocus()
        field.selectAll()
        qtbot.keyClicks(field, budget)
        qtbot.keyClick(field, Qt.Key.Key_Return)
        qtbot.waitUntil(lambda: in_front(schedules) is fits, timeout=10000)  # noqa: B023 - ends in its turn
        assert in_front(solving) is not fits


def test_panels_are_arranged_by_keys_1_to_3(qtbot, windows: Windows) -> None:
    window = windows((1590, 960))
    area = window.explorer.area
    before, graph = sizes(area), area.centralWidget().height()
    open_by_key = {
        Qt.Key.Key_2: {"inspector", "timeline", "layers"},
        Qt.Key.Key_3: {"inspector", "timeline"},
        Qt.Key.Key_1: set(area.docks),
    }
    for key, wanted in open_by_key.items():
        qtbot.keyClick(window, key)
        settle(qtbot)
        assert {name for name in area.docks if area.is_open(name)} == wanted
        inspector, high = area.docks["inspector"], area.centralWidget().height()
        assert inspector.x() < 20 and (inspector.height() > 0.9 * area.height()) == (key != Qt.Key.Key_1)
        if key == Qt.Key.Key_2:
            assert area.docks["timeline"].height() > before["timeline"][1] + 50
        elif key == Qt.Key.Key_3:
            assert high > graph + 50
    assert near(sizes(area), before)


def test_a_panel_that_an_arrangement_closed_opens_in_its_column(qtbot, windows: Windows) -> None:
    window = windows((1590, 960))
    area = window.explorer.area
    qtbot.keyClick(window, Qt.Key.Key_3)
    for name in ("budget", "layers"):
        assert not area.is_open(name)
        menu_action(window, f"{name.capitalize()} panel").trigger()
        settle(qtbot)
        opened = area_rect(area, area.docks[name])
        others = [area.docks["timeline"], area.docks["inspector"], area.centralWidget()]
        assert area.is_open(name) and not any(opened.intersects(area_rect(area, other)) for other in others)
    assert area_rect(area, area.docks["budget"]).left() > area_rect(area, area.centralWidget()).right()
    assert area_rect(area, area.docks["layers"]).right() < area_rect(area, area.centralWidget()).left()


def test_an_arrangement_of_an_earlier_version_is_not_ones_own(
    qtbot, windows: Windows, settings: QSettings
) -> None:
    settings.setValue("panels/own", True)
    settings.setValue("panels/state", windows((1590, 960)).explorer.area.saveState(1))
    settings.setValue("panels/own", True)  # the first window has written its own
    area = windows((1590, 960)).explorer.area
    assert not area._own
    area.window().resize(1366, 768)
    settle(qtbot)
    assert not stacked(area)


def test_a_second_window_begins_with_the_arrangement_of_the_first(qtbot, windows: Windows) -> None:
    first = windows((1590, 960))
    qtbot.keyClick(first, Qt.Key.Key_2)
    first.close()
    area = windows((1590, 960)).explorer.area
    assert {name for name in area.docks if area.is_open(name)} == {"inspector", "timeline", "layers"}


def in_front(dock: PanelDock) -> bool:
    """Return whether the dock is on screen. Qt puts those behind a tab outside."""
    return not dock.visibleRegion().isEmpty()


def area_rect(area: PanelArea, widget) -> QRect:
    return QRect(widget.mapTo(area, QPoint(0, 0)), widget.size())


def test_an_arrangement_of_ones_own_is_kept_when_the_window_gets_lower(qtbot, windows: Windows) -> None:
    window = windows((1590, 960))
    area = window.explorer.area
    area.toggle("timeline")
    window.resize(1590, 700)
    settle(qtbot)
    assert not area.is_open("timeline") and stacked(area)


def test_a_click_between_the_panels_is_no_arrangement_and_a_drag_is(qtbot, windows: Windows) -> None:
    area = windows((1590, 960)).explorer.area
    dock = area.docks["layers"]
    border = QPoint(dock.x() + dock.width() + 4, dock.height() // 2)
    before = dock.width()
    qtbot.mouseClick(area, Qt.MouseButton.LeftButton, pos=border)
    assert not area._own
    qtbot.mousePress(area, Qt.MouseButton.LeftButton, pos=border)
    qtbot.mouseMove(area, border + QPoint(60, 0))
    settle(qtbot)
    qtbot.mouseRelease(area, Qt.MouseButton.LeftButton, pos=border + QPoint(60, 0))
    assert dock.width() > before + 30 and area._own


def test_a_second_window_is_arranged_as_the_first_was_left(qtbot, windows: Windows) -> None:
    first = windows((1590, 960))
    first.explorer.area.toggle("schedules")
    fold_button(first.explorer.area.docks["timeline"]).click()
    first.close()
    second = windows((1590, 960)).explorer.area
    assert not second.is_open("schedules")
    assert second.docks["timeline"].folded and second.docks["timeline"].height() < 60


def test_a_damaged_arrangement_is_as_good_as_none(qtbot, windows: Windows, settings: QSettings) -> None:
    settings.setValue("panels/own", "perhaps")
    settings.setValue("panels/state", b"nonsense")
    settings.setValue("panels/folded", ["curve", 3])
    settings.setValue("window/geometry", b"nonsense")
    window = windows((1590, 960))
    window.place(QSize(1200, 800))
    assert all(window.explorer.area.is_open(name) for name in window.explorer.area.docks)


def test_a_first_window_fits_the_screen(qtbot, windows: Windows, settings: QSettings) -> None:
    window = new_window(qtbot, settings=settings)
    screen = window.screen().availableGeometry()
    window.place(screen.size() + QSize(400, 300))
    assert window.isMaximized()
    window.setWindowState(Qt.WindowState.WindowNoState)
    room = screen.size().expandedTo(window.minimumSize())
    assert window.width() <= room.width() and window.height() <= room.height()


def test_a_window_has_the_size_that_it_had_last(qtbot, settings: QSettings) -> None:
    first = new_window(qtbot, settings=settings)
    first.place(QSize(1000, 650), anew=True)
    first.show()
    first.close()
    second = new_window(qtbot, settings=settings)
    second.place(QSize(1300, 900))
    assert second.size() == QSize(1000, 650)
