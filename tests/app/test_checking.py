from __future__ import annotations

import os
import signal

import numpy as np
import psutil
import pytest

from app.models import solving
from app.models.solving import Checking
from app.state.knowledge import WhatIf
from app.state.solve import Aim
from checkmate.memory.check import check
from checkmate.processes.messages import JobCancelled
from checkmate.solvers.constraints import Constraints
from checkmate.workers.window_messages import Checked, FrontierSchedule, SolveEnded
from tests.app.windows import open_chain, training_chain

pytestmark = pytest.mark.heavy  # each solves and checks in processes of its own


@pytest.fixture(autouse=True)
def every_schedule_elsewhere(monkeypatch):
    monkeypatch.setattr(solving, "_AT_ONCE", 0)


def shuffled(graph, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(graph.n).astype(np.int32)


def test_the_process_finds_what_the_check_finds(window, exploration, qtbot) -> None:
    graph = training_chain(30)
    exploration.set_graph(graph)
    limited = WhatIf(graph, Constraints(keep=("a3",), recompute_gradients=False))
    checking, found = Checking(exploration), {}
    checking.checked.connect(lambda checked: found.update({checked.job: checked}))
    wanted = {}
    for seed in range(4):
        steps = np.arange(graph.n, dtype=np.int32) if seed == 0 else shuffled(graph, seed)
        for what_if in (limited, exploration.unconstrained):
            ticket = checking.ask(what_if, steps.tobytes())
            wanted[ticket] = (check(what_if.limited, steps.tolist()), check(graph, steps.tolist()))
    qtbot.waitUntil(lambda: len(found) == len(wanted), timeout=20000)
    assert list(found) == sorted(wanted)
    for ticket, reports in wanted.items():
        got = found[ticket]
        assert isinstance(got, Checked)
        for mine, its in zip(reports, (got.limited, got.plain), strict=True):
            for fact in ("ok", "peak_bytes", "peak_step", "cost"):
                assert getattr(mine, fact) == getattr(its, fact)
            assert [v.message for v in mine.violations] == [v.message for v in its.violations]
    checking.close()


def test_a_solve_ends_with_its_schedule_on_screen(window, qtbot) -> None:
    open_chain(window, qtbot, layers=30)
    exploration = window.session.exploration
    exploration.set_budget(int(exploration.plain.peak_bytes * 0.7))
    with qtbot.waitSignal(window.session.settled, timeout=60000):
        window.session.solve(3.0)
    assert exploration.solve.status in ("optimal", "feasible")
    assert exploration.shown.peak_bytes <= exploration.budget_bytes
    for found in exploration.known:
        report = check(exploration.graph, found.schedule.steps.tolist())
        assert report.ok and (report.peak_bytes, report.cost) == (found.peak_bytes, found.cost)
    window.explorer.budget.aim(Aim(0.08))
    with qtbot.waitSignal(window.session.settled, timeout=60000):
        pass
    assert exploration.shown.overhead <= 0.08 + 1e-9


def test_invalid_schedules_are_dropped(window, qtbot, chain_open) -> None:
    session, said = window.session, []
    session.noticed.connect(said.append)
    question, graph = next(reversed(session.solving._questions)), session.exploration.graph
    known = list(session.exploration.known)
    liar = FrontierSchedule(question, 2**40, "liar", 0.0, False, shuffled(graph, 1).tobytes())
    session.solving._on_received(liar)
    qtbot.waitUntil(lambda: any("failed the independent check" in text for text in said), timeout=20000)
    assert not any(found.solver == "liar" for found in session.exploration.known)
    for found in known:
        assert session.exploration.best_for(found.peak_bytes).cost <= found.cost


def test_a_killed_checker_loses_nothing(window, exploration, qtbot) -> None:
    others = psutil.Process().children(recursive=True)  # the pools of earlier tests
    open_chain(window, qtbot, layers=30)
    process = window.session.solving.checking.process
    exploration.set_budget(int(exploration.plain.peak_bytes * 0.75))
    window.session.solve(3.0)
    qtbot.waitUntil(lambda: process.pid != 0, timeout=10000)
    os.kill(process.pid, signal.SIGKILL)
    if exploration.solve.running:
        with qtbot.waitSignal(window.session.settled, timeout=60000):
            pass
    assert exploration.solve.status in ("optimal", "feasible")
    assert exploration.shown.peak_bytes <= exploration.budget_bytes
    children = [child for child in psutil.Process().children(recursive=True) if child not in others]
    window.session.close()
    _, left = psutil.wait_procs(children, timeout=5)
    assert not left


def test_the_same_schedule_is_checked_once(window, qtbot) -> None:
    open_chain(window, qtbot, layers=30)
    solving_model = window.session.solving
    solving_model.process.close()  # no other schedule is asked about meanwhile
    what_if = window.session.exploration.unconstrained
    asked = []
    ask = solving_model.checking.ask
    solving_model.checking.ask = lambda question, body: asked.append(body) or ask(question, body)
    steps = shuffled(what_if.graph, 1)
    first = solving_model._ticket(what_if, steps.tobytes())
    assert solving_model._ticket(what_if, steps.tobytes()) == first
    qtbot.waitUntil(lambda: first in solving_model._answers, timeout=20000)
    assert asked.count(steps.tobytes()) == 1
    solving_model._on_checker_died()  # the new process is asked about the same schedule again
    assert solving_model._ticket(what_if, steps.tobytes()) != first


def test_a_solver_whose_answer_is_being_checked_is_not_ended(window, qtbot, monkeypatch) -> None:
    open_chain(window, qtbot, layers=30)
    session = window.session
    qtbot.waitUntil(lambda: len(session.exploration.known) > 2, timeout=60000)  # its kernels are loaded
    session.exploration.set_budget(int(session.exploration.plain.peak_bytes * 0.75))
    monkeypatch.setattr(session.solving.checking, "ask", lambda what_if, body: 10**9)  # never answered
    solver = session.solver.pid
    monkeypatch.setattr(solving, "_CANCEL_PATIENCE_MS", 2000)
    session.solving._asked.clear()
    session.solve(30.0)
    qtbot.waitUntil(lambda: len(session.solving._arrived) > 0, timeout=10000)
    session.stop_solve()

    def has_answered() -> bool:
        return any(isinstance(one.message, SolveEnded | JobCancelled) for one in session.solving._arrived)

    qtbot.waitUntil(has_answered, timeout=10000)
    qtbot.wait(2500)
    assert session.solver.pid == solver
    session.solving._on_checker_died()
    assert not session.exploration.solve.running
