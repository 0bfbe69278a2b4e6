"""Test the device process's answers to errors, without TensorFlow."""

from __future__ import annotations

import pytest

from checkmate import planning
from checkmate.errors import CancelledError, LoadError, OtherStepError
from checkmate.processes.messages import JobCancelled, JobFailed, Message
from checkmate.processes.serve import Inbox
from checkmate.request import ModelRequest
from checkmate.workers.device import DeviceServer
from checkmate.workers.messages import Profile
from tests.sent import Sent


def answered(monkeypatch: pytest.MonkeyPatch, error: Exception) -> Message:
    def profile(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(planning, "profile", profile)
    channel = Sent()
    DeviceServer(channel, Inbox()).answer(Profile(3, ModelRequest("unet"), "measured"))
    assert len(channel.messages) == 1
    return channel.messages[0]


def test_a_fault_inside_is_an_answer_and_its_traceback_is_logged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    message = answered(monkeypatch, RuntimeError("boom"))
    assert isinstance(message, JobFailed) and message.job == 3
    assert message.message == "unexpected RuntimeError: boom" and "Copy report" in message.hint
    logged = capsys.readouterr().err
    assert "Traceback" in logged and "RuntimeError: boom" in logged


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
