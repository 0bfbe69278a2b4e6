from __future__ import annotations

from collections.abc import Sequence

import pytest
from PySide6.QtCore import Qt

from app.presenters.op_page import OpLink, again_rows
from app.state.knowledge import ListedSchedule, WhatIf
from app.state.solve import BudgetStanding, Standing
from checkmate import planning
from checkmate.ir import Graph, GraphBuilder
from checkmate.solvers.constraints import Constraints
from tests.app.windows import click_op, link_texts, training_chain

LEFT = Qt.MouseButton.LeftButton


def by_hand() -> Graph:
    """Build the example of the page "How it works", in units of one byte."""
    builder = GraphBuilder("by hand")
    a1, a2, a3, d2, d1 = (builder.value(name, 4) for name in ("a1", "a2", "a3", "d2", "d1"))
    d0 = builder.value("d0", 4, keep=True)
    builder.op("f1", [], [a1])
    builder.op("f2", [a1], [a2])
    builder.op("f3", [a2], [a3])
    builder.op("b3", [a2, a3], [d2])
    builder.op("b2", [a1, d2], [d1])
    builder.op("b1", [a1, d1], [d0])
    return builder.build()


def listed(graph: Graph, steps: Sequence[int]) -> ListedSchedule:
    found = WhatIf(graph, Constraints()).listed(steps, budget_bytes=2**40, solver="hand", seconds=0.0)
    assert found is not None
    return found


def standing(
    shown: ListedSchedule, budget: int, fit: BudgetStanding = BudgetStanding.BEST
) -> Standing | None:
    return Standing(fit, budget, shown, shown, 0, is_plain=False)


def said(rows: Sequence[OpLink]) -> list[tuple[str, str, str, str]]:
    return [(row.role, row.name, row.figure, row.detail) for row in rows]


def test_an_op_is_dropped_where_memory_is_full() -> None:
    shown = listed(by_hand(), [0, 1, 2, 3, 0, 4, 5])
    rows = again_rows(shown, 0, standing(shown, 12))
    why = "Memory was full to 100\u00a0% of the budget: no room for its 4 B."
    assert said(rows) == [
        ("step 2", "Dropped after this step", "", why),
        ("step 4", "b3", "fullest", ""),
        ("step 5", "Computed again", "run 2 of 2", ""),
        ("step 6", "b2", "reads it", ""),
    ]
    assert [(row.step, row.op) for row in rows] == [(1, -1), (3, 3), (4, -1), (5, 4)]
    assert all(again_rows(shown, op, standing(shown, 12)) == [] for op in range(1, 6))


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (15, "Memory was full to 80\u00a0% of the budget: no room for its 4 B."),
        (16, "Memory was at most 75\u00a0% of the budget meanwhile: there was room for its 4 B."),
    ],
)
def test_a_value_may_be_dropped_though_there_is_room(budget: int, words: str) -> None:
    shown = listed(by_hand(), [0, 1, 2, 3, 0, 4, 5])
    assert again_rows(shown, 0, standing(shown, budget))[0].detail == words


def test_a_schedule_that_is_not_the_budgets_own_is_held_against_its_peak() -> None:
    shown = listed(by_hand(), [0, 1, 2, 3, 0, 4, 5])
    other = listed(by_hand(), [0, 1, 2, 3, 4, 5])
    words = "Memory was full to 100\u00a0% of this schedule's peak: no room for its 4 B."
    for stands in (
        None,
        standing(other, 12),
        standing(shown, 4, BudgetStanding.OVER),
        standing(shown, 400, BudgetStanding.OTHER),
    ):
        assert again_rows(shown, 0, stands)[0].detail == words


def test_runs_that_nothing_reads_or_that_need_no_memory() -> None:
    useless = listed(by_hand(), [0, 1, 2, 3, 0, 0, 4, 5])
    rows = again_rows(useless, 0, None)
    assert said(rows)[2:] == [
        ("step 5", "Computed again", "run 2 of 3", ""),
        ("", "Nothing reads it after that", "", ""),
        ("step 6", "Computed again", "run 3 of 3", "It was in memory until then."),
        ("step 7", "b2", "reads it", ""),
    ]
    builder = GraphBuilder("view")
    whole = builder.value("whole", 8)
    flat = builder.value("flat", 8, alias_of=whole)
    out, last = builder.value("out", 2), builder.value("last", 2, keep=True)
    builder.op("make", [], [whole])
    builder.op("reshape", [whole], [flat])
    builder.op("other", [whole], [out])
    builder.op("read", [flat, out], [last])
    assert said(again_rows(listed(builder.build(), [0, 1, 2, 1, 3]), 1, None)) == [
        ("step 4", "Computed again", "run 2 of 2", "It has no bytes of its own."),
        ("step 5", "read", "reads it", ""),
    ]


def in_budget(window) -> int:
    """Show a schedule that recomputes, as its budget's own; return an op."""
    exploration = window.session.exploration
    graph = training_chain()
    exploration.set_graph(graph)
    budget = int(exploration.plain.peak_bytes * 0.6)
    steps = planning.solve(graph, budget, solver="greedy").require_schedule().steps
    exploration.add(steps, budget_bytes=budget, solver="greedy", seconds=0.0)
    exploration.set_budget(budget)
    exploration.show_now()
    window.explorer.turns.finish()
    assert exploration.standing.fit is BudgetStanding.BEST
    return min(exploration.shown.recomputed_ops)


def test_a_click_on_an_op_says_why_and_leads_there(window, exploration, qtbot) -> None:
    op = in_budget(window)
    inspector = window.explorer.inspector
    click_op(window, qtbot, op)
    assert window.selection.op == op and inspector.again.isVisible()
    dock = window.explorer.area.docks["inspector"]
    dock.setFloating(True)
    dock.resize(380, 900)
    qtbot.wait(100)
    again = exploration.shown.runs.recomputations_of(op)[0]
    dropped, fullest, made, read = link_texts(inspector.again)[:4]
    assert dropped[:2] == (f"step {again.freed_after + 1}", "Dropped after this step")
    assert dropped[3].startswith("Memory was") and "% of the budget" in dropped[3]
    assert made[:2] == (f"step {again.step + 1}", "Computed again") and read[2] == "reads it"
    named = (again.freed_after, again.fullest_step, again.step, again.read_at)
    for line, step in zip(inspector.again.lines, named, strict=False):
        qtbot.mouseClick(line.step, LEFT)
        assert (window.playhead.step, window.selection.op) == (step, op)
    qtbot.mouseClick(inspector.again.lines[0].name, LEFT)  # words alone lead nowhere
    assert window.selection.op == op
    assert fullest[1] == exploration.graph.ops[int(exploration.shown.schedule.steps[again.fullest_step])].name
    qtbot.mouseClick(inspector.again.lines[1].name, LEFT)
    assert exploration.graph.ops[window.selection.op].name == fullest[1]
    once = next(iter(set(range(exploration.graph.n)) - exploration.shown.recomputed_ops))
    window.selection.select(once)
    assert inspector.again.isHidden()
    dock.setFloating(False)


def test_the_words_follow_the_budget(window, exploration, qtbot) -> None:
    op = in_budget(window)
    again = window.explorer.inspector.again
    click_op(window, qtbot, op)
    assert "of the budget" in link_texts(again)[0][3]
    shown = exploration.shown
    exploration.set_budget(exploration.plain.peak_bytes)
    exploration.show_now()
    assert again.isHidden()  # all is kept
    exploration.show(shown)
    assert "of this schedule's peak" in link_texts(again)[0][3]
    exploration.set_budget(shown.peak_bytes)
    assert "100\u00a0% of the budget" in link_texts(again)[0][3]


def test_a_readers_step_moves_the_playhead(window, qtbot) -> None:
    op = in_budget(window)
    readers = window.explorer.inspector.readers
    click_op(window, qtbot, op)
    for number, key in ((1, Qt.Key.Key_Space), (0, Qt.Key.Key_Return)):
        readers.lines[number].step.setFocus()
        qtbot.keyClick(readers.lines[number].step, key)
        assert window.playhead.step == readers.links[number].step and window.selection.op == op
        assert link_texts(readers)[number][2] == "now" and not window.playhead.playing
