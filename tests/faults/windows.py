"""Conversations of the window with its processes, judged by their end.

``talk(patience)`` is as in ``tests.faults.protocols``.
"""

from __future__ import annotations

import math
import time
from contextlib import closing
from dataclasses import replace
from functools import cache
from typing import Any
from unittest import mock

from checkmate import planning
from checkmate.formats.graph import pack_graph
from checkmate.ir import Graph, SolveResult
from checkmate.memory.check import check
from checkmate.solvers.problem import SolveOptions
from tests.faults.protocols import ROUNDING, least_cost, small, truth, until
from tests.graphs_strategies import training_chain

_COSTS = (0.1, 0.5, math.inf)  # extra, as a share of computing everything once


def _bounds_are_true(bounds: list[tuple[int, float]]) -> str:
    for budget, bound in bounds:
        if bound > least_cost(8, budget) * ROUNDING:
            return f"a bound of {bound} for {budget}"
    return ""


def turn() -> None:
    from PySide6.QtCore import QCoreApplication, QEventLoop

    QCoreApplication.processEvents(QEventLoop.ProcessEventsFlag.AllEvents, 20)
    time.sleep(0.002)


@cache
def application() -> object:
    from PySide6.QtWidgets import QApplication

    return QApplication.instance() or QApplication([])


def explore(patience: float, *, ask_checker: bool = False) -> str:
    application()
    from app.models import solving
    from app.models.exploration import Exploration

    graph, exploration = small(), Exploration()
    at_once = mock.patch.object(solving, "_AT_ONCE", 0 if ask_checker else 10**6)
    with at_once, closing(solving.SolverClient(exploration)) as client:
        exploration.set_graph(graph)
        client.send_graph()
        for budget in (60, 45, 70):
            exploration.set_budget(budget)
            client.solve(2.0)
            if not until(lambda: not _solving(exploration), patience, turn):
                return f"the solve for {budget} never ended"
            if broken := _explored(exploration, graph, budget):
                return broken
    return ""


def show(exploration: Any, found: SolveResult) -> None:
    steps, budget = found.require_schedule().steps, found.budget_bytes
    exploration.set_budget(budget)
    exploration.add(steps, budget_bytes=budget, solver="", seconds=0.0)
    exploration.show_now()


def _solving(exploration: Any) -> bool:
    return exploration.solve is not None and exploration.solve.running


def _explored(exploration: Any, graph: Graph, budget: int) -> str:
    for found in exploration.known:
        report = check(graph, found.schedule.steps.tolist())
        if not report.ok or (report.cost, report.peak_bytes) != (found.cost, found.peak_bytes):
            return "a schedule is not what is said of it"
    solve, least = exploration.solve, least_cost(8, budget)
    if solve.status == "optimal" and exploration.best_for(budget).cost > least * ROUNDING:
        return "a schedule is called optimal that is not"
    if solve.status == "infeasible" and least < math.inf:
        return "a budget is called infeasible that is not"
    if solve.lower_bound is not None and solve.lower_bound > least * ROUNDING:
        return f"a bound of {solve.lower_bound} for {budget}"
    return _bounds_are_true(exploration.frontier.bounds)


def check_elsewhere(patience: float) -> str:
    return explore(patience, ask_checker=True)


def place_buffers(patience: float) -> str:
    application()

    from app.models.exploration import Exploration
    from app.models.placements import Placing
    from checkmate.memory.placement import place

    graph, exploration = small(), Exploration()
    with closing(Placing(exploration)) as placing:
        exploration.set_graph(graph)
        placing.want(True, "test")
        for budget in (60, 70):
            show(exploration, truth(8, budget))
            if not until(lambda: not placing.busy, patience, turn):
                return "the placement never came"
            shown = exploration.shown
            if placing.problem:
                continue
            if placing.found is None or placing.found[0] is not shown:
                return "there is neither a placement nor a word"
            right = place(shown.graph, shown.schedule, shown.timeline)
            if right is None or placing.found[1].to_bytes() != right.to_bytes():
                return "the placement is another schedule's"
    return ""


@cache
def _largest() -> int:
    from checkmate.largest.batch import max_batch

    return max_batch(_batched(), 300, max_overhead=math.inf, options=SolveOptions(time_limit_s=2.0)).batch


@cache
def _batched() -> Graph:
    return replace(training_chain(5), batch_size=1)


def find_batch(patience: float) -> str:
    application()
    from app.models.finders import BatchFinder
    from app.presenters.sizes import BatchQuestion

    graph = _batched()
    with closing(BatchFinder(1)) as finder:
        for _ in range(2):
            before = len(finder.answers)
            finder.ask(BatchQuestion(graph, 300, math.inf, 2.0), pack_graph(graph))
            if not until(lambda: finder.asked is None, patience, turn):
                return "the search never ended"
            found = finder.answers[before:]
            if not found and not finder.sentence:
                return "there is neither an answer nor a word"
            if any(answer.batch not in (0, _largest()) or answer.proved_none for answer in found):
                return f"the largest batch is said to be {[answer.batch for answer in found]}"
    return ""


@cache
def least_peak(max_overhead: float) -> int:
    found = planning.least_memory(
        small(), max_overhead=max_overhead, options=SolveOptions(time_limit_s=120.0)
    )
    assert found.proved, found
    return found.peak_bytes


def look_for_less(patience: float) -> str:
    for share in _COSTS:
        least_peak(share)
    application()
    from app.models.exploration import Exploration
    from app.models.solving import SolverClient
    from app.state.solve import Aim

    exploration = Exploration()
    with closing(SolverClient(exploration)) as client:
        exploration.set_graph(small())
        client.send_graph()
        for share in _COSTS:
            exploration.set_aim(Aim(share))
            client.solve(2.0)
            if not until(lambda: not _solving(exploration), patience, turn):
                return f"the search at {share} never ended"
            known, least = exploration.what_if, least_peak(share)
            if known.least_bound(share) > least:
                return f"a bound of {known.least_bound(share)} bytes at {share}"
            if exploration.solve.status == "optimal" and known.least_within(share).peak_bytes > least:
                return "a peak is called the least that is not"
            if broken := _bounds_are_true(exploration.frontier.bounds):
                return broken
    return ""
