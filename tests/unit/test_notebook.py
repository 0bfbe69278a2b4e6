"""Test what a notebook shows of the values that the Python functions return."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import checkmate
from checkmate.charts.anywhere import MIDDLE, on_any_background
from checkmate.charts.live_bytes import memory_svg
from checkmate.errors import FingerprintMismatchError, InfeasibleError, ScheduleError
from checkmate.ir import Schedule, SolveResult, SolveStatus
from checkmate.planning.exporting import RunOutcome
from checkmate.reports.gather import Gathered
from checkmate.reports.html import Section
from checkmate.units import format_bytes, format_overhead
from tests.graphs_strategies import training_chain
from tests.safety.test_names import NAMES, Tags, named
from tests.unit.reports import writers

GRAPH = replace(training_chain(7), batch_size=1)
MOST = 420  # characters
FRAMED = ("page", "gathered")


def solved(budget: str = "70%", graph: Any = GRAPH) -> SolveResult:
    return checkmate.solve(graph, budget, solver="greedy", quiet=True)


@cache
def values() -> dict[str, Any]:
    result = solved()
    brief = checkmate.SolveOptions(time_limit_s=2.0)
    return {
        "graph": GRAPH,
        "info": checkmate.info(GRAPH),
        "result": result,
        "result without a graph": replace(result, graph=None),
        "schedule": result.schedule,
        "plain schedule": Schedule.plain(GRAPH),
        "infeasible": solved("1B"),
        "infeasible without a graph": replace(solved("1B"), graph=None),
        "curve": writers.curve(),
        "least memory": checkmate.least_memory(GRAPH, options=brief, quiet=True),
        "largest batch": checkmate.max_batch(GRAPH, 300, options=brief, quiet=True),
        "report": writers.report(),
        "outcome": RunOutcome(writers.report(), result, GRAPH),
        "page": checkmate.view(GRAPH, result),
        "gathered": Gathered((Section("<a> section"),), ("left out",)),
    }


def words(shown: str) -> str:
    return " ".join("".join(ElementTree.fromstring(shown).itertext()).split())


@pytest.mark.parametrize("name", values())
def test_it_is_well_formed_and_no_longer_than_a_line(name: str) -> None:
    value = values()[name]
    root = ElementTree.fromstring(value._repr_html_())
    assert root.tag == ("iframe" if name in FRAMED else "div")
    assert not {"script", "link", "img"} & {element.tag for element in root.iter()}
    text = repr(value)
    assert text.startswith(type(value).__name__ + "(") and len(text) <= MOST and "\n" not in text


def test_figures_are_those_of_the_result() -> None:
    result = solved()
    peak, again = format_bytes(result.peak_bytes), result.require_schedule().recomputations
    extra = format_overhead(result.cost or 0.0, result.base_cost)
    assert again > 0
    budget = format_bytes(result.budget_bytes)
    assert (
        repr(result)
        == f"SolveResult({result.status}, {peak} of {budget}, {again} recomputations, {extra} cost)"
    )
    for shown in (result, replace(result, graph=None)):
        said = words(shown._repr_html_())
        assert peak in said and extra in said and f"{again} recomputations" in said
    assert "keep everything" in words(result._repr_html_())


def test_what_is_read_from_a_file_has_its_graph(tmp_path: Path) -> None:
    result = solved()
    checkmate.write_schedule(tmp_path / "s.json", GRAPH, result)
    assert checkmate.read_schedule(tmp_path / "s.json", GRAPH)._repr_html_() == result._repr_html_()


def test_where_nothing_fits_it_says_why_and_shows_the_budget() -> None:
    result = solved("1B")
    assert result.status is SolveStatus.INFEASIBLE and result.message
    assert repr(result) == "SolveResult(infeasible, no schedule within 1 B)"
    said = words(result._repr_html_())
    assert " ".join(result.message.split()) in said and "infeasible" in said and "budget" in said
    assert "<svg" in result._repr_html_() and "<svg" not in replace(result, graph=None)._repr_html_()


def test_a_curve_shows_every_budget() -> None:
    curve = writers.curve()
    said = words(curve._repr_html_())
    assert all(format_bytes(row.budget_bytes) in said for row in curve.rows)
    assert repr(curve) == "TradeOff('chain', 3 budgets from 1 B to 60 B, 2 proved optimal)"


def test_a_report_shows_what_was_measured() -> None:
    said = words(writers.report()._repr_html_())
    assert "928 KiB" in said and "1.81 MiB" in said and "as promised" in said and "a note" in said
    told = repr(replace(writers.report(), problems=("over the budget",)))
    assert told == "VerificationReport('chain', 1 problem, 928 KiB of 1.00 MiB, 3 recomputations)"


@pytest.mark.parametrize("name", NAMES)
def test_names_are_text(name: str) -> None:
    graph = named(name)
    result = solved("50B", graph)
    refuted = SolveResult(SolveStatus.INFEASIBLE, name, 1, 1.0, message=name, graph=graph)
    for value in (
        graph,
        result,
        refuted,
        writers.report(name),
        RunOutcome(writers.report(name), result, graph),
    ):
        shown = Tags(value._repr_html_())
        assert shown.odd == [] and not {"script", "img", "b>"} & set(shown.tags)
        assert shown.tags.count("style") == shown.tags.count("section") == 1
    page = checkmate.view(graph, result)
    assert Tags(page._repr_html_()).tags == ["iframe"] and Tags(page.html).odd == []


def test_long_values_have_short_texts() -> None:
    graph = replace(training_chain(400), name="n" * 5000)
    result = solved(graph=graph)
    report = replace(writers.report("m" * 5000), live_bytes=tuple(range(5000)))
    for value in (graph, result, result.schedule, report, RunOutcome(report, result, graph)):
        assert len(repr(value)) <= MOST
    assert len(result.require_schedule()._repr_html_()) < 400_000


def luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("color", MIDDLE.values())
def test_colors_stand_out_from_white_and_from_a_dark_page(color: str) -> None:
    """WCAG asks for a contrast of 3 for lines."""
    own, dark = luminance(color), luminance("#1e1e1e")
    assert 1.05 / (own + 0.05) >= 3 and (own + 0.05) / (dark + 0.05) >= 3


def test_no_color_of_a_page_is_left_in_a_picture() -> None:
    result = solved()
    shown = on_any_background(memory_svg(GRAPH, result.require_schedule(), result.budget_bytes))
    shown += "".join(value._repr_html_() for name, value in values().items() if name not in FRAMED)
    colors = set(re.findall(r'\b(?:fill|stroke)="(#\w+)"', shown))
    assert colors and colors <= set(MIDDLE.values())


def test_the_page_of_a_schedule_is_whole_and_locked_in() -> None:
    result = solved()
    page = checkmate.view(GRAPH, result)
    frame = ElementTree.fromstring(page._repr_html_())
    assert frame.attrib["srcdoc"] == page.html.replace("\n", " ")  # as XML has attributes
    assert frame.attrib["sandbox"] == "allow-scripts"
    assert "default-src 'none'" in page.html and not re.search("https?:", page.html)
    assert format_bytes(result.peak_bytes) in html.unescape(page.html)
    assert checkmate.view(GRAPH, result.require_schedule()).title == GRAPH.name
    assert checkmate.view(GRAPH, Schedule.plain(GRAPH)).html.startswith("<!DOCTYPE html>")


def test_a_page_needs_a_schedule_of_the_graph() -> None:
    with pytest.raises(InfeasibleError):
        checkmate.view(GRAPH, solved("1B"))
    with pytest.raises(FingerprintMismatchError):
        checkmate.view(training_chain(5), solved())
    with pytest.raises(ScheduleError, match="does not hold for chain: "):
        checkmate.view(GRAPH, Schedule(np.array([1, 0]), GRAPH.fingerprint))
