"""Values as notebooks show them, and the page of a schedule through which a reader moves.

The pictures and the words are those of the reports.
"""

from __future__ import annotations

import html
import reprlib
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from checkmate.arguments import GraphLike, ResultLike, graph_of, result_of
from checkmate.charts.anywhere import on_any_background
from checkmate.charts.live_bytes import memory_svg
from checkmate.charts.order import order_svg
from checkmate.charts.svg_chart import SMALL
from checkmate.errors import ScheduleError
from checkmate.formats.files import Fields
from checkmate.formats.schedule import report_to_json, result_to_json
from checkmate.frontiers.curve import curve_of
from checkmate.frontiers.summary import TradeOff
from checkmate.ir import Graph, Schedule, SolveResult, VerificationReport
from checkmate.ir.shown import Shown
from checkmate.largest.of_model import LargestBatch
from checkmate.memory.check import check
from checkmate.planning.exporting import RunOutcome
from checkmate.planning.graph_info import GraphInfo
from checkmate.reports.curves import curve_section
from checkmate.reports.gather import TITLE, Gathered
from checkmate.reports.html import Note, Picture, Section, section, sections_page
from checkmate.reports.steps import step_section
from checkmate.solvers.bounds import working_set_bound
from checkmate.solvers.constraints import Constraints
from checkmate.solvers.portfolio.least_memory import LeastMemory
from checkmate.units import format_bytes, format_overhead

_VALUE = Path("value")  # in place of a file's name
# A notebook's theme is not the browser's, so colours are those of the text around, and paler.
_STYLE = """.checkmate { max-width: 760px; font-size: 13px; line-height: 1.45;
  font-variant-numeric: tabular-nums; }
.checkmate h2 { font-size: 15px; font-weight: 600; margin: 4px 0; }
.checkmate h3 { font-size: 13px; font-weight: 600; margin: 12px 0 4px; }
.checkmate p { margin: 4px 0; } .checkmate .muted, .checkmate .cards span { opacity: .75; }
.checkmate .cards { display: flex; flex-wrap: wrap; gap: 6px 28px; margin: 8px 0; }
.checkmate .cards b { display: block; font-size: 17px; font-weight: 600; }
.checkmate .cards span { font-size: 12px; } .checkmate figure { margin: 8px 0; }
.checkmate svg { display: block; width: 100%; height: auto; }
.checkmate .wide { overflow-x: auto; }
.checkmate table { border-collapse: collapse; font-size: 12px; margin: 0; color: inherit; }
.checkmate .wide td, .checkmate .wide th { padding: 2px 14px 2px 0; text-align: left; }
.checkmate th { font-weight: 400; opacity: .75; vertical-align: bottom; }
.checkmate .wide .n { text-align: right; white-space: nowrap; } .checkmate .wide th.n { white-space: normal; }
"""


@dataclass(frozen=True, repr=False)
class Page(Shown):
    """A self-contained page; a notebook shows it in a frame."""

    title: str
    html: str

    def __repr__(self) -> str:
        return f"Page({reprlib.repr(self.title)}, {format_bytes(len(self.html))})"


def view(graph: GraphLike, result: ResultLike | Schedule) -> Page:
    """Return a page that shows a schedule step by step.

    Memory, what is in it, and the matrices R and S can be moved through; a notebook shows the page, and it
    needs no other file. ``graph`` is as for ``info``; ``result`` is what ``solve`` returned, a schedule file
    or a ``Schedule``.

    Raises:
        ScheduleError: the schedule does not hold for the graph. NoScheduleError: there is none.
        FormatError: a file is missing or broken.

    >>> checkmate.view("unet-b8.graph", checkmate.solve("unet-b8.graph", "60%"))
    """
    from app.presenters.report_page import ReportContent, html_report
    from app.state.knowledge import WhatIf

    read = graph_of(graph)
    solved = None if isinstance(result, Schedule) else result_of(result, read)
    schedule = result if isinstance(result, Schedule) else result_of(result, read).require_schedule()
    schedule.require_graph(read)
    steps = schedule.steps.tolist()
    replayed = check(read, steps)
    if not replayed.valid:
        raise ScheduleError(f"the schedule does not hold for {read.name}: {replayed.problem}")
    known = WhatIf(read, Constraints())
    known.needed_bytes = working_set_bound(read).bytes
    solver, seconds, budget = "hand", 0.0, replayed.peak_bytes
    if solved is not None:
        solver, seconds = solved.solver, solved.solve_seconds
        budget = max(budget, solved.budget_bytes)
        if solved.lower_bound is not None and not solved.assumptions:
            known.frontier.add_bound(solved.budget_bytes, solved.lower_bound)
    known.insert(steps, budget_bytes=budget, solver=solver, seconds=seconds, report=replayed)
    shown = known.listed(steps, budget_bytes=budget, solver=solver, seconds=seconds, report=replayed)
    assert shown is not None, "the schedule was replayed"
    content = ReportContent(read, shown, known.plain, tuple(known.known), known.least_possible, ())
    return Page(read.name, html_report(content, datetime.now()))


def html_of(value: Any) -> str:
    """Return what a notebook shows of a value, as an element of its page."""
    match value:
        case Page():
            return _frame(value.html)
        case Gathered():
            return _frame(sections_page(TITLE, value.sections, datetime.now(), left_out=value.left_out))
        case Graph():
            return _element(step_section(None, None, value, SMALL))
        case GraphInfo():
            return html_of(value.graph)
        case TradeOff():
            shown = curve_section(curve_of(value), SMALL)
            picture, budgets, _, *notes = shown.blocks  # the known strategies are in the picture
            return _element(replace(shown, blocks=(picture, budgets, *notes)))
        case SolveResult():
            return _element(_of_result(value, value.graph))
        case LeastMemory():
            return html_of(value.result)
        case LargestBatch():
            return _element(_of_result(value.result, value.graph))
        case Schedule():
            return _element(Section("A schedule", blocks=(Picture(order_svg(value, SMALL)),)))
        case VerificationReport():
            return _element(step_section(_fields(report_to_json(value)), None, None, SMALL))
        case RunOutcome():
            said = _fields(result_to_json(value.graph, value.result))
            return _element(step_section(_fields(report_to_json(value.report)), said, value.graph, SMALL))
    raise TypeError(f"nothing draws a {type(value).__name__}")


def _of_result(result: SolveResult, graph: Graph | None) -> Section:
    if result.schedule is not None and graph is not None:
        return step_section(None, _fields(result_to_json(graph, result)), graph, SMALL)
    cards = [(result.status.value, f"by {result.solver}"), (format_bytes(result.budget_bytes), "budget")]
    blocks = [Note((result.message,))]
    if result.schedule is not None and result.cost is not None:
        cards.insert(1, (format_bytes(result.peak_bytes), "peak, predicted"))
        cards.append((format_overhead(result.cost, result.base_cost), "extra cost, solved"))
        return Section("A schedule", (), tuple(cards), (Picture(order_svg(result.schedule, SMALL)), *blocks))
    if graph is None:
        return Section("No schedule", (), tuple(cards), tuple(blocks))
    picture = Picture(memory_svg(graph, Schedule.plain(graph), result.budget_bytes, SMALL))
    return Section(f"{graph.name}: no schedule", (), tuple(cards), (*blocks, picture))


def _fields(told: dict[str, Any]) -> Fields:
    return Fields(_VALUE, told)


def _element(one: Section) -> str:
    blocks = (replace(block, caption="") if isinstance(block, Picture) else block for block in one.blocks)
    one = replace(one, blocks=tuple(blocks))
    return f'<div class="checkmate"><style>\n{_STYLE}</style>{on_any_background(section(one))}</div>'


def _frame(page: str) -> str:
    look = "width: 100%; height: 640px; border: 0; border-radius: 8px"
    return f'<iframe sandbox="allow-scripts" style="{look}" srcdoc="{html.escape(page)}"></iframe>'
