"""Test how servers answer errors, and messages that come too late, too early or never."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkmate import planning
from checkmate.errors import CancelledError, LoadError, OtherStepError
from checkmate.formats.graph import pack_graph
from checkmate.memory.placement import Placement
from checkmate.processes.messages import Cancel, JobCancelled, JobFailed, Message, pack_steps
from checkmate.processes.serve import Inbox
from checkmate.request import ModelRequest
from checkmate.workers.device import DeviceServer
from checkmate.workers.replays import ReplayServer
from checkmate.workers.solver import SolverServer
from checkmate.workers.window_messages import (
    FindLeastMemory,
    GraphToReplay,
    Placed,
    PlaceSchedule,
    Profile,
    SolveBudget,
)
from tests.graphs_strategies import training_chain
from tests.sent import Sent


@pytest.mark.parametrize("later", [Cancel(1), SolveBudget(2, 2**20, 1.0), FindLeastMemory(2, None, 1.0)])
@pytest.mark.parametrize("asked", [SolveBudget(1, 2**20, 1.0), FindLeastMemory(1, 0.1, 1.0)])
def test_an_outdated_solve_is_not_begun(asked: Message, later: Message) -> None:
    channel, inbox = Sent(), Inbox()
    inbox.receive(asked)
    inbox.receive(later)
    SolverServer(channel, inbox).answer(inbox.get())
    assert channel.messages == [JobCancelled(1)]


def test_an_outdated_schedule_is_not_placed_to_the_end() -> None:
    graph, channel, inbox = training_chain(9), Sent(), Inbox()
    older, newer = (PlaceSchedule(job, pack_steps(range(graph.n))) for job in (1, 2))
    inbox.receive(older)
    inbox.receive(newer)
    server = ReplayServer(channel, inbox)
    for asked in (GraphToReplay(pack_graph(graph)), older, newer):
        server.answer(asked)
    cancelled, answer = channel.messages
    assert cancelled == JobCancelled(1) and isinstance(answer, Placed) and answer.job == 2
    assert len(Placement.from_bytes(answer.placement).allocated) == graph.n


def test_a_question_about_a_graph_that_was_lost_fails() -> None:
    for server_class, asked in (
        (SolverServer, SolveBudget(1, 2**20, 1.0)),
        (ReplayServer, PlaceSchedule(1, pack_steps([0]))),
    ):
        channel = Sent()
        server_class(channel, Inbox()).answer(asked)
        (failed,) = channel.messages
        assert isinstance(failed, JobFailed) and failed.job == 1


def answered(monkeypatch: pytest.MonkeyPatch, error: Exception) -> Message:
    def profile(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(planning, "profile", profile)
    channel = Sent()
    DeviceServer(channel, Inbox()).answer(Profile(3, ModelRequest("unet"), "measured"))
    assert len(channel.messages) == 1
    return channel.messages[0]


def test_a_fault_inside_is_an_answer_that_names_its_report(monkeypatch: pytest.MonkeyPatch) -> None:
    message = answered(monkeypatch, RuntimeError("boom"))
    assert isinstance(message, JobFailed) and message.job == 3
    assert message.message == "unexpected RuntimeError: boom"
    report = Path(message.hint.partition("attach ")[2]).read_text()
    assert "Traceback" in report and "RuntimeError: boom" in report


def test_an_error_that_the_user_can_mend_is_sent_unchanged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    message = answered(monkeypatch, LoadError("there is no such model", hint="name another"))
    assert message == JobFailed(3, "LoadError", "there is no such model", "name another")
    assert answered(monkeypatch, CancelledError("cancelled")) == JobCancelled(3)
    assert not capsys.readouterr().err


def test_a_step_that_has_changed_is_an_answer_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    error = OtherStepError(
        found="sha256:1", expected="sha256:2", graph_name="unet", model="unet", batch_size=8, budget_bytes=1
    )
    message = answered(monkeypatch, error)
    assert isinstance(message, JobFailed) and message.is_a(OtherStepError) and not message.is_a(LoadError)
    assert (message.message, message.hint) == (str(error), error.hint)
