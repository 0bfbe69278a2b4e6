from __future__ import annotations

import math
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from checkmate import planning
from checkmate.charts.frontier import svg_text
from checkmate.charts.live_bytes import memory_svg
from checkmate.formats.exploration import SavedExploration, write_exploration
from checkmate.frontiers.sweep import trade_off
from checkmate.ir import Graph, Schedule
from checkmate.reports.gather import gather
from checkmate.reports.html import sections_page
from checkmate.solvers.problem import SolveOptions
from checkmate.units import Budget
from tests.graphs_strategies import training_chain
from tests.unit.reports import writers
from tests.unit.reports.test_page import WHEN

NAMES = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "a]]>b<![CDATA[c",
    "two\nlines\r\nand\ttabs",
    "</title></style><script>alert(1)</script>",
    "javascript:alert(1)",
    "&lt;script&gt;&#x3c;b&#x3e;",
    "--><script>alert(1)</script><!--",
    "\u202egnp.exe\u0000\u0001",
]


class Tags(HTMLParser):
    """Collect the tags, and attributes that would run or fetch something."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.odd: list[str] = []
        self.scripts: list[str] = []
        self._inside = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._inside = tag == "script"
        for name, value in attrs:
            runs = name.startswith("on") or "javascript:" in (value or "").lower()
            if runs or (name in ("src", "href") and not (value or "").startswith(("data:", "#"))):
                self.odd.append(f"{tag} {name}={value}")

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts.append(data)


def named(name: str) -> Graph:
    graph = training_chain(6)
    ops = [replace(op, name=f"{name}{i}", group=name, type=name) for i, op in enumerate(graph.ops)]
    values = [replace(value, name=f"{name}:{i}", dtype=name) for i, value in enumerate(graph.values)]
    return replace(graph, name=name, ops=tuple(ops), values=tuple(values))


def drawn(svg: str) -> set[str]:
    """Return the kinds of elements of a picture that a strict parser accepts."""
    root = ElementTree.fromstring(svg)
    for element in root.iter():
        assert not any(key.startswith("on") for key in element.attrib)
    return {element.tag.rpartition("}")[2] for element in root.iter()}


@pytest.mark.parametrize("name", NAMES)
def test_pictures(name: str) -> None:
    graph = named(name)
    plain = {*drawn(memory_svg(training_chain(6), Schedule.plain(training_chain(6)), 40))}
    assert drawn(memory_svg(graph, Schedule.plain(graph), 40)) == plain
    found = trade_off(graph, [Budget(share=0.75), Budget(share=1.0)], options=SolveOptions(time_limit_s=5.0))
    assert not {"script", "img", "b", "foreignObject", "a"} & drawn(svg_text(found))


@pytest.mark.parametrize("name", NAMES)
def test_the_page_of_results(name: str, tmp_path: Path) -> None:
    graph = named(name)
    solved = planning.solve(graph, 50, solver="greedy", options=SolveOptions(time_limit_s=5.0))
    write_exploration(
        tmp_path / "e.json", SavedExploration(graph, 50, (solved,), ((5, math.inf), (40, graph.base_cost)))
    )
    (tmp_path / "run").mkdir()
    writers.write_run(tmp_path / "run", name.replace("\x00", ""))
    writers.write_curve(tmp_path / "curve.json", name.replace("\x00", ""))
    page = Tags(sections_page(name, gather([tmp_path]).sections, WHEN, left_out=[name]))
    assert page.odd == [] and not {"img", "iframe", "object"} & set(page.tags)
    assert not any("alert(1)" in script for script in page.scripts)
    assert page.tags.count("title") >= 1 and "script" not in page.tags
