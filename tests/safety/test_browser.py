"""Open pages and pictures with hostile names in a real browser.

Where no browser is installed this is skipped; ``test_names`` reads the same pages with parsers.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

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

WHEN = datetime(2026, 1, 2, 3, 4)
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.heavy,  # a browser starts for each page
    pytest.mark.skipif(BROWSER is None, reason="no browser is installed"),
]
HURT = "document.documentElement.setAttribute('hurt','yes')"
NAMES = [
    f"<script>{HURT}</script>",
    f'"><img src=x onerror="{HURT}">',
    f"</title></style><script>{HURT}</script>",
    f"</script><script>{HURT}</script>",
    f"--><script>{HURT}</script><!--",
    f"]]><script>{HURT}</script><![CDATA[",
    f"<svg onload={HURT}>",
    f"</text><script>{HURT}</script>",
    f'"onmouseover="{HURT}" autofocus onfocus="{HURT}" x="',
    f"';{HURT};'",
    f'";{HURT};"',
    f"\\u003cscript>{HURT}\\u003c/script>",
]


def hostile() -> Graph:
    """Return a graph in which everything has one of the names."""
    graph = training_chain(6)
    names = [NAMES[i % len(NAMES)] for i in range(max(graph.n, len(graph.values)))]
    ops = [
        replace(op, name=f"{names[i]}{i}", group=names[i], type=names[i]) for i, op in enumerate(graph.ops)
    ]
    values = [replace(value, name=f"{names[i]}:{i}", dtype=names[i]) for i, value in enumerate(graph.values)]
    return replace(graph, name=NAMES[0], ops=tuple(ops), values=tuple(values))


def opened(path: Path, folder: Path) -> str:
    """Return what the browser makes of a file, once its scripts have run."""
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command += [f"--user-data-dir={folder}", "--virtual-time-budget=3000", "--dump-dom", path.as_uri()]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 0 and ended.stdout.strip(), ended.stderr[-2000:]
    return ended.stdout


def results_page(graph: Graph, folder: Path) -> str:
    """Return the page of ``checkmate report``."""
    solved = planning.solve(graph, 50, solver="greedy", options=SolveOptions(time_limit_s=5.0))
    write_exploration(folder / "e.json", SavedExploration(graph, 50, (solved,), ((40, graph.base_cost),)))
    return sections_page(NAMES[0], gather([folder / "e.json"]).sections, WHEN, left_out=NAMES)


def window_page(graph: Graph, folder: Path) -> str:
    pytest.importorskip("PySide6")
    from PySide6.QtWidgets import QApplication

    kept = QApplication.instance() or QApplication([])
    from app.models.exploration import Exploration
    from app.presenters.report_page import html_report

    exploration = Exploration()
    exploration.set_graph(graph)
    reported = exploration.reported()
    assert reported is not None and kept is not None
    return html_report(reported, WHEN)


def memory_picture(graph: Graph, folder: Path) -> str:
    """Return the chart of the live bytes."""
    return memory_svg(graph, Schedule.plain(graph), 40)


def frontier_picture(graph: Graph, folder: Path) -> str:
    return svg_text(trade_off(graph, [Budget(share=0.75)], options=SolveOptions(time_limit_s=5.0)))


def without_policy(page: str) -> str:
    """Return a page that no longer forbids what it does not have."""
    return re.sub(r"<meta http-equiv=\"Content-Security-Policy\"[^>]*>", "", page)


def was_run(dom: str) -> bool:
    """Return whether a name ran: it marks the outermost element."""
    found = re.search(r"<(?:html|svg)\b[^>]*>", dom)
    assert found is not None, dom[:500]
    return "hurt=" in found[0]


@pytest.mark.parametrize(
    ("made", "kind"),
    [(results_page, "html"), (window_page, "html"), (memory_picture, "svg"), (frontier_picture, "svg")],
)
def test_no_name_runs(made: Callable[[Graph, Path], str], kind: str, tmp_path: Path) -> None:
    page = made(hostile(), tmp_path)
    for number, text in enumerate({page, without_policy(page)}):
        path = tmp_path / f"{number}.{kind}"
        path.write_text(text, encoding="utf-8")
        assert not was_run(opened(path, tmp_path / "profile"))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("html", f"<!DOCTYPE html><html><body>{NAMES[0]}</body></html>"),
        ("html", f'<!DOCTYPE html><html><body><p title="{NAMES[1]}"></p></body></html>'),
        ("svg", f'<svg xmlns="http://www.w3.org/2000/svg">{NAMES[0]}</svg>'),
    ],
)
def test_the_browser_runs_a_name_that_is_markup(kind: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / f"bare.{kind}"
    path.write_text(text, encoding="utf-8")
    assert was_run(opened(path, tmp_path / "profile"))
