from __future__ import annotations

import dataclasses
import gc
import json

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QInputDialog, QLineEdit, QTreeWidgetItem

from app.models.exploration import Exploration
from app.presenters.schedule_rows import (
    RowGroup,
    ScheduleRow,
    _told_apart,
    cost_text,
    schedule_name,
    share_text,
)
from app.presenters.solve_text import on_screen
from app.state.solve import BudgetStanding
from app.views.panels.bar_rows import DETAIL
from checkmate import planning
from checkmate.formats.exploration import read_exploration, write_exploration
from tests.app.windows import enter_budget, exploration_of, open_chain, smaller, training_chain

pytestmark = pytest.mark.heavy  # each solves in a process of its own

PATIENCE_MS = 60_000


def panel_of(window):
    return window.explorer.schedules


def rows_of(window, group: RowGroup) -> list[ScheduleRow]:
    return [row for row in panel_of(window).rows if row.group is group]


def filled(window, qtbot) -> None:
    """Wait until the work in the background has found something of each kind."""
    exploration = window.session.exploration
    what_if = exploration.what_if
    qtbot.waitUntil(lambda: len(what_if.known) > 4 and len(what_if.baselines) > 0, timeout=PATIENCE_MS)
    stop(window, qtbot)


def stop(window, qtbot) -> None:
    row = panel_of(window).filling
    qtbot.mouseClick(row.switch, Qt.MouseButton.LeftButton, pos=QPoint(8, row.switch.height() // 2))
    assert not row.switch.isChecked()
    qtbot.wait(1000)  # for what was on its way


def named(window, qtbot, name: str) -> ScheduleRow:
    press(window, qtbot, Qt.Key.Key_F2)
    field = panel_of(window)._list.findChild(QLineEdit)
    qtbot.keyClicks(field, name)
    qtbot.keyClick(field, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: any(row.name == name for row in panel_of(window).rows), timeout=PATIENCE_MS)
    return next(row for row in panel_of(window).rows if row.name == name)


def solve(window, qtbot, text: str) -> None:
    with qtbot.waitSignal(window.session.settled, timeout=PATIENCE_MS):
        enter_budget(window, qtbot, text)
    qtbot.waitUntil(lambda: not panel_of(window)._soon.isActive(), timeout=PATIENCE_MS)


def place_of(window, row: ScheduleRow) -> QPoint:
    tree = panel_of(window)._list
    item = tree.item(row.found)
    tree.scrollToItem(item)
    return tree.visualItemRect(item).center()


def click(window, qtbot, row: ScheduleRow, modifier=Qt.KeyboardModifier.NoModifier) -> None:
    viewport = panel_of(window)._list.viewport()
    qtbot.mouseClick(viewport, Qt.MouseButton.LeftButton, modifier, place_of(window, row))


def press(window, qtbot, key, modifier=Qt.KeyboardModifier.NoModifier) -> None:
    qtbot.keyClick(panel_of(window)._list, key, modifier)


def undo(window, qtbot) -> None:
    qtbot.keyClick(window, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)


def open_unet(window, qtbot) -> None:
    """Open the bundled graph; wait for a schedule better than the plain one."""
    exploration = window.session.exploration
    with qtbot.waitSignal(exploration.graph_changed, timeout=PATIENCE_MS):
        window.open("unet-b8.graph")
    qtbot.waitUntil(lambda: exploration.known[-1] is not exploration.plain, timeout=PATIENCE_MS)


def test_what_is_filled_in_neither_hides_the_baselines_nor_changes_what_is_shown(window, qtbot) -> None:
    exploration, seen = window.session.exploration, []
    exploration.shown_changed.connect(lambda: seen.append(exploration.shown))
    open_unet(window, qtbot)
    filled(window, qtbot)
    plain = exploration.plain
    assert seen == [plain] and exploration.shown is plain
    names = [row.name for row in rows_of(window, RowGroup.BASELINES)]
    assert names[0] == "Keep everything · +0\u00a0%" and "Chen greedy, 50\u00a0% · +23.4\u00a0%" in names
    assert len({row.lines(narrow=True)[0] for row in rows_of(window, RowGroup.BASELINES)}) == len(names) > 3
    assert rows_of(window, RowGroup.MINE) == []
    frontier = rows_of(window, RowGroup.FRONTIER)
    assert len(frontier) > 3 and len({row.name for row in frontier}) == len(frontier)
    for row in frontier:
        share = share_text(row.found.peak_bytes / plain.peak_bytes)
        assert row.name == f"{share} · {cost_text(row.found.overhead)}" and "%" in row.name
    tree = panel_of(window)._list
    assert not tree.heads[RowGroup.FRONTIER].isExpanded() and tree.heads[RowGroup.BASELINES].isExpanded()


def test_a_better_schedule_is_offered_and_a_click_shows_it(window, exploration, qtbot) -> None:
    open_unet(window, qtbot)
    filled(window, qtbot)
    link = panel_of(window).better
    assert link.isVisible() and link.text().startswith("Better: ")
    qtbot.mouseClick(link, Qt.MouseButton.LeftButton)
    assert exploration.shown is exploration.best_for(exploration.budget_bytes)
    assert not link.isVisible()


def test_a_cheaper_one_found_for_another_budget_is_said(window, exploration, qtbot) -> None:
    exploration.set_graph(training_chain())  # without a solver process, so that nothing else happens
    budget = int(0.8 * exploration.plain.peak_bytes)
    peak = exploration.plain.peak_bytes
    dear, good = (planning.solve(exploration.graph, int(part * peak)) for part in (0.6, 0.8))
    exploration.set_budget(budget)
    for result, asked in ((dear, True), (good, False)):
        found = {"budget_bytes": result.budget_bytes, "solver": result.solver, "seconds": 0.0}
        assert exploration.add(result.require_schedule().steps, **found, asked=asked)
    assert exploration.shown.cost == dear.cost > good.cost
    assert exploration.standing.fit is BudgetStanding.OTHER
    assert "a cheaper one is known" in on_screen(exploration.standing)
    exploration.set_budget(budget)
    assert exploration.shown.cost == good.cost and exploration.standing.fit is BudgetStanding.BEST


def test_what_was_asked_for_is_mine_under_its_budget_and_cost(window, exploration, qtbot, chain_open) -> None:
    solve(window, qtbot, "80%")
    solve(window, qtbot, "70%")
    mine = rows_of(window, RowGroup.MINE)
    assert [row.name.split(" · ")[0] for row in mine] == ["80\u00a0%", "70\u00a0%"]
    assert all(row.name.endswith(f"· {cost_text(row.found.overhead)}") for row in mine)
    assert mine[1].found is exploration.shown and "optimal" in mine[1].detail
    solve(window, qtbot, "80%")
    assert len(rows_of(window, RowGroup.MINE)) == 2, "the same question has one row"


def test_what_the_slider_only_passed_is_not_listed(window, exploration, qtbot) -> None:
    exploration.set_graph(training_chain())
    peak = exploration.plain.peak_bytes
    exploration.set_budget(peak + 1)
    exploration.begin_solve(1)
    exploration.solve.started -= 10.0  # it was looked at for so long
    exploration.set_budget(peak + 2)
    exploration.begin_solve(2)
    exploration.set_budget(peak + 3)
    exploration.begin_solve(3)
    assert [own.asked.budget_bytes for own in exploration.listing.own] == [peak + 1]


def test_rows_that_are_gone_are_freed(window) -> None:
    def items() -> int:
        gc.collect()
        return sum(type(found) is QTreeWidgetItem for found in gc.get_objects())

    counts = []
    for layers in (6, 7, 8, 9):
        window.session.exploration.set_graph(training_chain(layers))
        counts.append(items())
        assert counts[-1] > panel_of(window)._list.topLevelItemCount()  # heads, and rows
    assert len(set(counts)) == 1


def test_a_clicked_schedule_stays_while_others_are_found(window, exploration, qtbot, chain_open) -> None:
    solve(window, qtbot, "70%")
    click(window, qtbot, rows_of(window, RowGroup.BASELINES)[0])
    assert exploration.shown is exploration.plain
    filled(window, qtbot)
    assert exploration.shown is exploration.plain


def test_groups_fold_and_a_folded_one_says_what_of_it_is_on_screen(window, qtbot, chain_open) -> None:
    filled(window, qtbot)
    tree = panel_of(window)._list
    head = tree.heads[RowGroup.FRONTIER]
    at = tree.visualItemRect(head).center()
    qtbot.mouseClick(tree.viewport(), Qt.MouseButton.LeftButton, pos=at)
    assert head.isExpanded()
    row = rows_of(window, RowGroup.FRONTIER)[2]
    click(window, qtbot, row)
    assert window.session.exploration.shown is row.found and tree.currentItem().text(0) == row.name
    tree.scrollToItem(head)
    qtbot.mouseClick(tree.viewport(), Qt.MouseButton.LeftButton, pos=tree.visualItemRect(head).center())
    assert not head.isExpanded()
    assert head.data(0, DETAIL) == f"on screen: {row.name}"


def test_pin_rename_note_and_delete_by_keyboard_and_undo_each(window, qtbot, chain_open) -> None:
    solve(window, qtbot, "80%")
    solve(window, qtbot, "70%")
    smaller = rows_of(window, RowGroup.MINE)[1]
    click(window, qtbot, smaller)
    row = named(window, qtbot, "for the paper")
    assert row.group is RowGroup.MINE and cost_text(row.found.overhead) in row.detail
    qtbot.keyClick(window, Qt.Key.Key_D, Qt.KeyboardModifier.ControlModifier)
    assert [row.pinned for row in rows_of(window, RowGroup.MINE)] == [True, False]
    assert rows_of(window, RowGroup.MINE)[0].name == "for the paper"
    dialog = panel_of(window).write_note()
    assert isinstance(dialog, QInputDialog)
    qtbot.keyClicks(dialog.findChild(QLineEdit), "fits the old card")
    qtbot.keyClick(dialog.findChild(QLineEdit), Qt.Key.Key_Return)
    assert "fits the old card" in rows_of(window, RowGroup.MINE)[0].detail
    click(window, qtbot, rows_of(window, RowGroup.MINE)[0])
    press(window, qtbot, Qt.Key.Key_Delete)
    assert [row.name for row in rows_of(window, RowGroup.MINE)] == [rows_of(window, RowGroup.MINE)[0].name]
    assert all(row.name != "for the paper" for row in panel_of(window).rows)
    undo(window, qtbot)
    assert "fits the old card" in rows_of(window, RowGroup.MINE)[0].detail
    undo(window, qtbot)
    assert "fits" not in rows_of(window, RowGroup.MINE)[0].detail
    undo(window, qtbot)
    assert not rows_of(window, RowGroup.MINE)[0].pinned
    undo(window, qtbot)
    assert rows_of(window, RowGroup.MINE)[1].name == smaller.name


def test_a_removed_schedule_stays_known(window, exploration, qtbot, chain_open) -> None:
    solve(window, qtbot, "70%")
    before = [one.peak_bytes for one in exploration.known]
    click(window, qtbot, rows_of(window, RowGroup.MINE)[0])
    press(window, qtbot, Qt.Key.Key_Delete)
    assert rows_of(window, RowGroup.MINE) == [] and exploration.shown is not None
    assert set(before) <= {one.peak_bytes for one in exploration.known}
    assert exploration.shown.key in {row.found.key for row in rows_of(window, RowGroup.FRONTIER)}


def test_typing_a_name_is_not_disturbed_by_what_is_found(window, exploration, qtbot, chain_open) -> None:
    solve(window, qtbot, "70%")
    click(window, qtbot, rows_of(window, RowGroup.MINE)[0])
    press(window, qtbot, Qt.Key.Key_F2)
    field = panel_of(window)._list.findChild(QLineEdit)
    qtbot.keyClicks(field, "half a na")
    exploration.known_changed.emit()
    qtbot.wait(200)
    assert field.text() == "half a na"
    qtbot.keyClicks(field, "me")
    qtbot.keyClick(field, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: rows_of(window, RowGroup.MINE)[0].name == "half a name", timeout=PATIENCE_MS)


def test_the_switch_stops_the_work_and_lets_it_go_on(window, exploration, qtbot) -> None:
    open_chain(window, qtbot, 40)
    row = panel_of(window).filling
    qtbot.waitUntil(lambda: "working" in row.sign.whole, timeout=PATIENCE_MS)
    qtbot.mouseClick(row.switch, Qt.MouseButton.LeftButton, pos=QPoint(8, row.switch.height() // 2))
    assert "off" in row.sign.whole and not window.commands["solve.fill"].isChecked()
    qtbot.wait(1500)  # for what was on its way
    known = [one.point for one in exploration.known]
    bounds = exploration.frontier.bounds
    qtbot.wait(1500)
    assert [one.point for one in exploration.known] == known and exploration.frontier.bounds == bounds
    window.commands["solve.fill"].trigger()
    assert row.switch.isChecked()
    qtbot.waitUntil(
        lambda: [one.point for one in exploration.known] != known or exploration.frontier.bounds != bounds,
        timeout=PATIENCE_MS,
    )


def test_the_list_is_saved_and_older_files_open(window, exploration, qtbot, tmp_path, chain_open) -> None:
    solve(window, qtbot, "70%")
    filled(window, qtbot)
    click(window, qtbot, rows_of(window, RowGroup.MINE)[0])
    named(window, qtbot, "mine")
    path = tmp_path / "e.json"
    write_exploration(path, exploration.saved())
    again = Exploration()
    again.restore(read_exploration(path))
    assert [own.saved() for own in again.listing.own] == [own.saved() for own in exploration.listing.own]
    assert [own.found.key for own in again.listing.own] == [own.found.key for own in exploration.listing.own]
    kept = {(one.solver, one.peak_bytes) for one in exploration.what_if.baselines}
    assert kept and kept <= {(one.solver, one.peak_bytes) for one in again.what_if.baselines}
    data = json.loads(path.read_text())
    for entry in data["schedules"]:
        entry.pop("own", None)
    path.write_text(json.dumps(data))
    old = Exploration()
    old.restore(read_exploration(path))
    assert len(old.listing.own) == 0
    assert [one.key for one in old.known] == [one.key for one in exploration.known]


def test_no_row_moves_while_the_hand_aims(window, exploration, qtbot, chain_open) -> None:
    filled(window, qtbot)
    listed = panel_of(window)._list
    at = listed.visualItemRect(listed.item(exploration.plain))
    qtbot.mouseMove(listed.viewport(), at.center() - QPoint(9, 0))
    qtbot.mouseMove(listed.viewport(), at.center())
    assert listed.aimed_at
    frontier = [row.found for row in rows_of(window, RowGroup.FRONTIER)]
    other = next(found for found in frontier if found is not exploration.shown)
    window.explorer.schedules._edits.pin(other)  # its row comes above
    assert listed.visualItemRect(listed.item(exploration.plain)) == at
    qtbot.mousePress(listed.viewport(), Qt.MouseButton.LeftButton, pos=at.center())
    qtbot.wait(150)  # a slow finger
    qtbot.mouseRelease(listed.viewport(), Qt.MouseButton.LeftButton, pos=at.center())
    assert exploration.shown.key == exploration.plain.key  # and so the click hits what was aimed at
    qtbot.waitUntil(
        lambda: other.key in {row.found.key for row in rows_of(window, RowGroup.MINE)}, timeout=2000
    )


def test_two_that_would_have_one_name_have_more_digits() -> None:
    exploration = exploration_of(training_chain())
    smaller(exploration)
    found = exploration.known[0]
    row = ScheduleRow(RowGroup.FRONTIER, found, schedule_name(found, 10**6), "", "", "")
    twin = dataclasses.replace(row, found=_Like(found.peak_bytes + 40_000, found.overhead))
    names = [each.name for each in _told_apart([row, twin], 10**9)]
    assert len(set(names)) == 2 and all(name.count("%") == 2 for name in names)


@dataclasses.dataclass(frozen=True)
class _Like:
    peak_bytes: int
    overhead: float
