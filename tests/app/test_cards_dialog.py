from __future__ import annotations

import pytest
from PySide6.QtCore import Qt

from checkmate.catalog.cards import Cards, CardSize
from checkmate.frontiers.cards import CardFit
from tests.app.windows import open_chain

RESERVE = 100


def opened(window, qtbot):
    open_chain(window, qtbot)
    plain = window.session.exploration.plain.peak_bytes
    window.commands["solve.cards"].trigger()
    dialog = window.explorer.open_cards()
    sizes = (1, plain // 2, plain * 3 // 4, plain, 2 * plain, 3 * plain, 4 * plain, 5 * plain, 6 * plain)
    dialog._cards = Cards(RESERVE, tuple(CardSize(size + RESERVE, (f"card {size}",)) for size in sizes))
    dialog._refresh()
    return dialog, plain


def words(dialog) -> list[str]:
    model = dialog.table.model()
    return [model.index(number, 2).data() for number in range(model.rowCount())]


@pytest.mark.heavy
def test_each_row_says_what_is_known_and_follows_what_is_found(window, qtbot) -> None:
    dialog, plain = opened(window, qtbot)
    assert dialog.isVisible()
    qtbot.waitUntil(lambda: dialog.rows[0].fit is CardFit.TOO_SMALL, timeout=20000)
    assert words(dialog)[0] == "does not fit, proved" and set(words(dialog)[3:]) == {"keeps everything"}
    window.explorer.budget.choose(plain * 3 // 4)
    qtbot.waitUntil(lambda: dialog.rows[2].fit is CardFit.FITS, timeout=60000)
    assert words(dialog)[2].startswith("fits at +")
    assert "assumed" in dialog.notes.text()


def test_a_row_becomes_the_budget_and_undo_takes_it_back(window, exploration, qtbot) -> None:
    dialog, plain = opened(window, qtbot)
    before = exploration.budget_bytes
    assert not dialog.use.isEnabled()
    dialog.table.selectRow(2)
    qtbot.mouseClick(dialog.use, Qt.MouseButton.LeftButton)
    assert exploration.budget_bytes == plain * 3 // 4
    qtbot.waitUntil(window.what_ifs.stack.canUndo, timeout=20000)
    window.what_ifs.stack.undo()
    assert exploration.budget_bytes == before
    dialog.table.selectRow(8)
    dialog.use.click()
    assert exploration.budget_bytes == plain  # no step needs more


def test_without_a_graph_it_says_so(window, qtbot) -> None:
    dialog = window.explorer.open_cards()
    assert dialog.notes.text() == "No graph is open." and set(words(dialog)) == {""}
    dialog.table.selectRow(0)
    assert not dialog.use.isEnabled()
