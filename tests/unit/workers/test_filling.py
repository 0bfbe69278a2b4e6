"""Test the solver process's work on other budgets. It says how it stands, and stops by itself."""

from __future__ import annotations

import time

import pytest

from checkmate.formats.graph import pack_graph
from checkmate.memory.check import check
from checkmate.processes.messages import unpack_steps
from checkmate.progress import FillState
from checkmate.solvers.compile.compilation import load_kernels
from checkmate.solvers.constraints import Constraints
from checkmate.workers import solver
from checkmate.workers.solver import LiveQuestion
from checkmate.workers.window_messages import Filling, FrontierSchedule, OpenQuestion
from tests.graphs_strategies import training_chain
from tests.sent import Sent

STALL_S = 60.0


class Heard(Sent):
    """What is sent of other budgets."""

    @property
    def states(self) -> list[FillState]:
        return [message.state for message in self.messages if isinstance(message, Filling)]

    @property
    def baselines(self) -> list[FrontierSchedule]:
        return [one for one in self.messages if isinstance(one, FrontierSchedule) and one.baseline]


def asked(layers: int) -> OpenQuestion:
    return OpenQuestion(1, 1, Constraints(), pack_graph(training_chain(layers)))


def work(question: LiveQuestion) -> None:
    end = time.monotonic() + STALL_S
    while question.fill(lambda: False):
        assert time.monotonic() < end


def test_it_stops_when_its_time_is_up_and_goes_on_when_told(monkeypatch: pytest.MonkeyPatch) -> None:
    load_kernels()
    monkeypatch.setattr(solver, "_FILL_S", 0.001)
    monkeypatch.setattr(solver, "_FILL_PER_OP_S", 0.0)
    heard = Heard()
    question = LiveQuestion(heard, asked(30), fill=False)
    try:
        assert heard.states == []
        work(question)
        assert heard.states == [FillState.WORKING, FillState.RESTING]
        assert not question.fill(lambda: False)
        question.fill_again()
        work(question)
        assert heard.states[2:] == [FillState.WORKING, FillState.RESTING]
    finally:
        question.live.close()


def test_it_says_when_nothing_is_left() -> None:
    load_kernels()
    heard = Heard()
    question = LiveQuestion(heard, asked(3), fill=True)
    try:
        work(question)
    finally:
        question.live.close()
    assert heard.states == [FillState.WORKING, FillState.DONE]


def test_it_sends_what_the_published_methods_find_even_if_it_is_beaten() -> None:
    load_kernels()
    heard, sent = Heard(), []
    question = LiveQuestion(heard, asked(16), fill=True)
    end = time.monotonic() + STALL_S
    try:
        while not sent and time.monotonic() < end and question.fill(lambda: False):
            sent = heard.baselines
    finally:
        question.live.close()
    sent = heard.baselines
    assert sent and all(message.solver.startswith("chen-") for message in sent)
    for message in sent:
        steps = unpack_steps(message.steps).tolist()
        assert check(question.graph, steps, budget_bytes=message.budget_bytes).ok
