"""The trade-off curve is monotone, bounds never above the optimum, baselines never below the curve."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from checkmate.charts.frontier import svg_text
from checkmate.charts.svg_chart import Chart, LabelPlacer
from checkmate.cli.commands.frontier import write
from checkmate.errors import CheckmateError, SolverUnavailableError, UsageError
from checkmate.frontiers.summary import TradeOff
from checkmate.frontiers.sweep import trade_off
from checkmate.frontiers.table import COLUMNS, csv_text, facts, text
from checkmate.ir import Graph, SolveStatus
from checkmate.memory.check import check
from checkmate.progress import Progress, never
from checkmate.solvers.compile.compilation import load_kernels
from checkmate.solvers.problem import SolveOptions
from checkmate.solvers.registry import BASELINES
from checkmate.units import Budget, round_values
from tests.generated_graphs import training_dag
from tests.graphs_strategies import tiny_graphs, training_chain
from tests.oracles import optimum
from tests.recorder import require_checked

SVG = "{http://www.w3.org/2000/svg}"
ROUNDING = 1e-9


@pytest.fixture(scope="module", autouse=True)
def kernels() -> None:
    """Compile before anything is solved."""
    load_kernels()


def curve(
    graph: Graph, budgets: int | Sequence[Budget] = 5, *, solver: str = "auto", seconds: float = 4.0
) -> TradeOff:
    return trade_off(graph, budgets, solver=solver, options=SolveOptions(time_limit_s=seconds))


@pytest.fixture(scope="module")
def found() -> TradeOff:
    """Return a branching network's curve. One of its budgets is too small for any schedule."""
    budgets = [Budget(bytes_=1), *(Budget(share=share) for share in (0.4, 0.6, 0.8, 1.0))]
    return curve(training_dag(3, 9), budgets, seconds=2.0)


def require_true(found: TradeOff) -> None:
    costs, bounds = [], []
    for row in found.rows:
        bounds.append(row.lower_bound)
        if row.point is None:
            assert not costs, "a smaller budget had a schedule"
            assert row.status is not SolveStatus.OPTIMAL and row.gap is None
            continue
        require_checked(found.graph, row.point, row.budget_bytes)
        assert row.lower_bound <= row.point.cost * (1 + ROUNDING)
        assert row.gap is not None and (row.gap <= ROUNDING) == (row.status is SolveStatus.OPTIMAL)
        costs.append(row.point.cost)
    assert costs == sorted(costs, reverse=True) and bounds == sorted(bounds, reverse=True)
    for baseline in found.baselines:
        assert baseline.points or baseline.note
        peaks = [point.peak_bytes for point in baseline.points]
        its = [point.cost for point in baseline.points]
        assert peaks == sorted(set(peaks), reverse=True) and its == sorted(set(its))
        for point in baseline.points:
            require_checked(found.graph, point)
            best = found.frontier.best(point.peak_bytes)
            assert best is not None and found.frontier.bound(point.peak_bytes) <= point.cost * (1 + ROUNDING)
            assert best.cost <= point.cost * (1 + ROUNDING), "the curve is above a baseline"


@pytest.mark.parametrize("index", range(0, 11, 2))
def test_against_all_schedules_of_tiny_graphs(index: int) -> None:
    graph = tiny_graphs()[index]
    found = curve(graph, 4)
    require_true(found)
    assert not found.cancelled and [baseline.solver for baseline in found.baselines] == list(BASELINES)
    for row in found.rows:
        best = optimum(graph, row.budget_bytes)
        if best is None:
            assert row.point is None
        else:
            assert row.lower_bound <= best.cost * (1 + ROUNDING)
            assert row.point is None or row.point.cost >= best.cost * (1 - ROUNDING)
        if row.status is SolveStatus.OPTIMAL:
            assert best is not None and row.point is not None and row.point.cost == pytest.approx(best.cost)
        if row.status is SolveStatus.INFEASIBLE:
            assert best is None


def test_a_count_spans_from_the_least_memory_to_keep_everything(chain: Graph) -> None:
    found = curve(chain, 6)
    require_true(found)
    budgets = [row.budget_bytes for row in found.rows]
    assert len(budgets) == 6 and budgets[-1] == found.plain_peak_bytes == 90
    assert np.ptp(np.diff(budgets)) <= 1 and found.frontier.infeasible_below < budgets[0]
    assert all(row.status is SolveStatus.OPTIMAL for row in found.rows), (
        "a chain of eight is proved in moments"
    )


def test_budgets_as_given(found: TradeOff) -> None:
    require_true(found)
    plain = found.plain_peak_bytes
    shares = [int(round(plain * share, 3)) for share in (0.4, 0.6, 0.8, 1.0)]
    assert [row.budget_bytes for row in found.rows] == [1, *shares]
    assert found.rows[0].status is SolveStatus.INFEASIBLE and math.isinf(found.rows[0].lower_bound)
    assert found.rows[-1].status is SolveStatus.OPTIMAL
    least = curve(training_chain(8), [Budget()])
    assert [row.budget_bytes for row in least.rows] == [least.frontier.points[0].peak_bytes]


def test_another_solver_whose_proofs_hold_in_its_order_only(chain: Graph) -> None:
    greedy = curve(chain, 4, solver="greedy", seconds=5.0)
    require_true(greedy)
    assert {row.point.solver for row in greedy.rows if row.point} <= {"greedy", *BASELINES}
    milp = curve(chain, [Budget(bytes_=60)], solver="tight-milp", seconds=10.0)
    require_true(milp)
    [row] = milp.rows
    assert row.result is not None and row.result.assumptions, "it proves in the given order"
    assert row.status is SolveStatus.FEASIBLE and row.lower_bound == chain.base_cost
    assert "assuming" in text(milp) and facts(milp)["budgets"][0]["assumptions"] == list(
        row.result.assumptions
    )


@pytest.mark.parametrize(
    ("cancel_at", "how"),
    [
        ("baseline keep-all", "asked"),
        ("baseline griewank", "asked"),
        ("budget", "asked"),
        ("budget", "killed"),
    ],
)
def test_cancelling_keeps_what_was_found(cancel_at: str, how: str) -> None:
    asked = False

    def report(progress: Progress) -> None:
        nonlocal asked
        if progress.message.startswith(cancel_at):
            asked = True
            if how == "killed":
                raise KeyboardInterrupt

    graph = training_dag(1, 14)
    cancelled: Callable[[], bool] = (lambda: asked) if how == "asked" else never
    options = SolveOptions(time_limit_s=20.0)
    found = trade_off(graph, 5, options=options, report=report, cancelled=cancelled)
    require_true(found)
    assert found.cancelled and len(found.rows) == 5
    assert found.rows[-1].status is SolveStatus.OPTIMAL, "keep-everything is known from the start"
    names = [baseline.solver for baseline in found.baselines]
    assert names == list(BASELINES[: len(names)]) and (cancel_at != "budget" or len(names) == len(BASELINES))
    assert "cancelled: this is what was found so far" in text(found)
    assert facts(found)["cancelled"] is True and "cancelled" in svg_text(found)


@pytest.mark.parametrize(
    ("budgets", "solver", "error"),
    [(1, "auto", UsageError), ([], "auto", UsageError), (4, "simplex", SolverUnavailableError)],
)
def test_questions_that_make_no_sense(
    chain: Graph, budgets: int | list[Budget], solver: str, error: type[CheckmateError]
) -> None:
    with pytest.raises(error) as caught:
        trade_off(chain, budgets, solver=solver)
    assert caught.value.hint and "\n" not in str(caught.value)


def test_a_step_that_needs_no_memory_has_a_curve_of_one_budget() -> None:
    found = curve(training_chain(1), 5)
    require_true(found)
    assert len(found.rows) == 1
    ElementTree.fromstring(svg_text(found))


def test_progress_has_the_time_as_its_measure(chain: Graph) -> None:
    heard: list[Progress] = []
    found = trade_off(chain, 3, options=SolveOptions(time_limit_s=3.0), report=heard.append)
    assert sum(row.seconds for row in found.rows) <= found.seconds
    assert heard and all(p.total == 3.0 and 0 <= p.done <= 3.0 for p in heard)


def test_json_holds_everything(found: TradeOff, tmp_path: Path) -> None:
    path = tmp_path / "curve.json"
    write(path, found)
    data = json.loads(path.read_text(encoding="utf-8"))
    assert (data["format"], data["version"], data["cancelled"]) == ("checkmate-frontier", 1, False)
    assert data["graph"]["fingerprint"] == found.graph.fingerprint
    assert [row["budget_bytes"] for row in data["budgets"]] == [row.budget_bytes for row in found.rows]
    assert [row["status"] for row in data["budgets"]] == [row.status.value for row in found.rows]
    assert data["budgets"][0]["lower_bound"] is None and data["budgets"][0]["cost"] is None
    for schedule, point in zip(data["schedules"], found.frontier, strict=True):
        report = check(found.graph, schedule["steps"], budget_bytes=schedule["peak_bytes"])
        assert report.ok and (report.cost, report.peak_bytes) == (point.cost, point.peak_bytes)
    assert [(b["solver"], len(b["points"])) for b in data["baselines"]] == [
        (b.solver, len(b.points)) for b in found.baselines
    ]
    assert all("steps" not in schedule for schedule in facts(found)["schedules"]), (
        "on the terminal they would be in the way"
    )


def test_csv_holds_every_number(found: TradeOff) -> None:
    lines = list(csv.DictReader(io.StringIO(csv_text(found))))
    assert tuple(lines[0]) == COLUMNS
    budgets = [line for line in lines if line["kind"] == "budget"]
    for line, row in zip(budgets, found.rows, strict=True):
        assert int(line["budget_bytes"]) == row.budget_bytes and line["status"] == row.status.value
        share = row.budget_bytes / found.plain_peak_bytes
        assert float(line["budget_percent"]) == pytest.approx(100 * share)
        assert line["cost"] == ("" if row.point is None else str(row.point.cost))
        assert line["lower_bound"] == ("" if math.isinf(row.lower_bound) else str(row.lower_bound))
    points = [(b.solver, p.peak_bytes, p.cost) for b in found.baselines for p in b.points]
    told = [(x["solver"], int(x["peak_bytes"]), float(x["cost"])) for x in lines if x["kind"] == "baseline"]
    assert told == points and points


def test_the_picture_stands_alone_and_says_what_it_shows(found: TradeOff, tmp_path: Path) -> None:
    path = tmp_path / "curve.svg"
    write(path, found)
    content = path.read_text(encoding="utf-8")
    root = ElementTree.fromstring(content)
    assert root.tag == f"{SVG}svg"
    assert [word for word in ("href", "<script", "<style", "<image", "url(") if word in content] == []
    words = " | ".join(node.text or "" for node in root.iter(f"{SVG}text"))
    for expected in (
        "peak memory, B",
        "extra cost over computing everything once, %",
        "lower bound, any order",
        "infeasible, proved",
        "best schedule known",
        found.graph.name,
    ):
        assert expected in words
    names = {
        name for node in root.iter(f"{SVG}text") for name in (node.text or "").partition(" (")[0].split(", ")
    }
    for baseline in found.baselines:
        assert (baseline.solver in names) == bool(baseline.points)
    titles = [node.text or "" for node in root.iter(f"{SVG}title")]
    assert sum(title.startswith("budget ") for title in titles if ":" in title and "proved" in title) >= 2
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for line in root.iter(f"{SVG}polyline"):
        for pair in line.attrib["points"].split():
            x, y = map(float, pair.split(","))
            assert 0 <= x <= width and 0 <= y <= height, "drawn outside the picture"


def test_a_name_with_markup_in_it_is_text(chain: Graph) -> None:
    named = curve(replace(chain, name='<b>&"chain"</b>'), 2, solver="greedy")
    root = ElementTree.fromstring(svg_text(named))
    assert '<b>&"chain"</b>' in "".join(root.itertext())


def test_ticks_are_round_and_inside() -> None:
    assert round_values(0.0, 50.0, 5) == [0, 10, 20, 30, 40, 50]
    for low, high in ((0.3, 0.7), (7.1, 20.4), (0.0, 1e-3), (0.0, 3e6)):
        found = round_values(low, high, 8)
        assert 2 <= len(found) <= 10 and low <= found[0] and found[-1] <= high * (1 + 1e-9)


def test_labels_at_one_place_do_not_cover_each_other() -> None:
    chart = Chart(x=(0.0, 1.0), y=(0.0, 1.0))
    labels = LabelPlacer(chart)
    x, y = chart.at(0.5, 0.5)
    for name in ("chen-sqrt", "chen-greedy", "griewank"):
        labels.put(x, y, name, "#000000")
    boxes = labels._taken
    for i, (a0, b0, a1, b1) in enumerate(boxes):
        for c0, d0, c1, d1 in boxes[:i]:
            assert a1 <= c0 or c1 <= a0 or b1 <= d0 or d1 <= b0
