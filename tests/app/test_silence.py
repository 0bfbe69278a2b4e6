from __future__ import annotations

import os
import time

import pytest

from app.models import solving
from app.models.exploration import Exploration
from app.models.finders import BatchFinder
from app.models.placements import Placing
from app.models.scales import SizeTracer
from app.models.solving import Checking, SolverClient
from app.presenters.sizes import BatchQuestion
from app.workers import client as clients
from app.workers import process
from app.workers.process import WorkerProcess
from checkmate.ir import SolveStatus
from checkmate.memory.check import check
from checkmate.request import ModelRequest
from checkmate.workers.window_messages import Checked, Placed, Preparing, SolveEnded
from tests.app.windows import exploration_of
from tests.graphs_strategies import training_chain

pytestmark = pytest.mark.heavy  # many tests of a second or two

SILENT = "import time; time.sleep(60)"
GARBAGE = "print('no frame at all, but long enough', flush=True); import time; time.sleep(60)"


BUSY = """
import time
end = time.monotonic() + 6
while time.monotonic() < end:
    pass
time.sleep(60)
"""


@pytest.fixture
def module(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")

    def make(code: str) -> str:
        (tmp_path / "odd.py").write_text(code)
        return "odd"

    return make


@pytest.fixture
def exploration(qapp) -> Exploration:
    found = exploration_of(training_chain(8))
    found.set_budget(60)
    return found


def test_a_process_that_does_not_answer_is_ended_and_reported(qtbot, module) -> None:
    worker = WorkerProcess("odd", module(SILENT))
    worker.start()
    with qtbot.waitSignal(worker.died, timeout=20000) as told:
        worker.expect(0.1)
    assert "did not answer" in told.args[0] and not worker.running
    worker.start()
    worker.expect(0.1)
    worker.expect(None)
    with qtbot.assertNotEmitted(worker.died, wait=300):
        pass
    worker.close()


def test_a_process_that_computes_is_waited_for_and_then_ended(qtbot, module, monkeypatch) -> None:
    monkeypatch.setattr(process, "_LOOK_S", 0.5)
    worker = WorkerProcess("odd", module(BUSY))
    worker.start()
    begun = time.monotonic()
    with qtbot.waitSignal(worker.died, timeout=40000) as told:
        worker.expect(0.1)
    assert time.monotonic() - begun > 4, "it was ended while it computed"
    assert "did not answer" in told.args[0]


def test_a_process_that_computes_for_ever_is_ended(qtbot, module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_LOOK_S", 0.2)
    monkeypatch.setattr(process, "_MOST_LOOKS", 4)
    worker = WorkerProcess("odd", module("while True: pass"))
    worker.start()
    with qtbot.waitSignal(worker.died, timeout=20000):
        worker.expect(0.1)


def test_a_solve_that_is_never_answered_ends(qtbot, module, exploration, monkeypatch) -> None:
    monkeypatch.setattr(solving, "_SILENT_S", 0.1)
    client, said = SolverClient(exploration), []
    client.process._module = module(SILENT)
    client.failed.connect(lambda sentence, hint: said.append(sentence))
    with qtbot.waitSignal(client.settled, timeout=20000):
        client.solve(0.1)
    assert exploration.solve.status == "failed" and "did not answer" in said[0]
    client.close()


def test_a_solver_that_cannot_be_read_is_not_started_for_ever(qtbot, module, exploration) -> None:
    client, said = SolverClient(exploration), []
    client.process._module = module(GARBAGE)
    client.failed.connect(lambda sentence, hint: said.append(sentence))
    client.send_graph()
    qtbot.waitUntil(lambda: len(said) == 4, timeout=30000)
    qtbot.wait(300)
    assert len(said) == 4 and not client.process.running
    sent = []
    client.process.send = lambda message: sent.append(type(message).__name__)
    client.solve()
    assert sent.index("OpenQuestion") < sent.index("SolveBudget")  # the next process needs the graph first
    client.close()


def test_news_of_a_solve_is_waited_for_until_it_ends(exploration) -> None:
    client = SolverClient(exploration)
    client.process.send = lambda message: None
    client.solve()
    silence = client.process._silence
    assert silence.isActive() and silence.interval() == 1000 * (client.seconds + solving._SILENT_S)
    client._on_received(Preparing("compiling", False))
    assert silence.isActive()
    job = exploration.solve.job
    ended = SolveEnded(job, SolveStatus.LIMIT, "auto", 60, None, 1.0, (), "", {}, b"")
    client._on_received(ended)
    assert not silence.isActive() and not exploration.solve.running
    client._on_received(ended)  # twice
    client._on_received(Preparing("compiling", False))
    assert not silence.isActive()
    client.close()


def test_a_check_that_is_never_answered_is_given_up(qtbot, module, exploration, monkeypatch) -> None:
    monkeypatch.setattr(solving, "SILENT_S", 0.1)
    checking = Checking(exploration)
    checking.process._module = module(SILENT)
    with qtbot.waitSignal(checking.died, timeout=20000):
        checking.ask(exploration.what_if, b"")
    checking.close()


def test_one_lost_check_of_several_is_noticed(qtbot, module, exploration, monkeypatch) -> None:
    monkeypatch.setattr(solving, "SILENT_S", 0.1)
    checking, steps = Checking(exploration), exploration.plain.schedule.steps.tolist()
    checking.process._module = module(SILENT)
    checking.ask(exploration.what_if, b"")
    last = checking.ask(exploration.what_if, b"")
    report = check(exploration.graph, steps)
    with qtbot.waitSignal(checking.died, timeout=20000):
        checking._on_received(Checked(last, report, report))
    checking.close()


@pytest.mark.parametrize("answer", [None, b"", bytes(7), bytes(32)], ids=["none", "empty", "cut", "other"])
def test_a_placement_that_is_none_is_a_problem(qtbot, module, exploration, monkeypatch, answer) -> None:
    monkeypatch.setattr(clients, "SILENT_S", 0.1 if answer is None else 60.0)
    places = Placing(exploration)
    places.client.process._module = module(SILENT)
    exploration.add(exploration.plain.schedule.steps, budget_bytes=99, solver="", seconds=0.0)
    exploration.show_now()
    places.want(True, "test")
    assert places.busy
    if answer is not None:
        places.client._on_received(Placed(places.client.job, answer))
    qtbot.waitUntil(lambda: not places.busy, timeout=20000)
    assert places.problem and places.found is None
    places.close()


def test_a_search_for_a_batch_that_is_never_answered_ends(qtbot, module, monkeypatch) -> None:
    monkeypatch.setattr(clients, "SILENT_S", 0.1)
    finder = BatchFinder(1)
    finder.client.process._module = module(SILENT)
    finder.ask(BatchQuestion(training_chain(4), 99, None, 0.0), b"{}")
    qtbot.waitUntil(lambda: finder.asked is None, timeout=20000)
    assert "did not answer" in finder.sentence
    finder.close()


def test_a_trace_at_another_size_that_is_never_answered_fails(qtbot, module) -> None:
    tracer, said = SizeTracer(), []
    tracer._client._silent_s = 0.1
    tracer._client.process._module = module(SILENT)
    tracer.failed.connect(said.append)
    with qtbot.waitSignal(tracer.failed, timeout=20000):
        tracer.ask(ModelRequest("unet"))
    assert "did not answer" in said[0]
    tracer.close()
