"""What the device process answers when something goes wrong; no TensorFlow."""

from __future__ import annotations

from typing import Any

import pytest

from checkmate import pipeline
from checkmate.errors import CancelledError, LoadError
from checkmate.ipc.child import Inbox
from checkmate.ipc.protocol import Message
from checkmate.request import ModelRequest
from checkmate.workers import device


class Sent:
    """A channel that keeps what is sent."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def send(self, header: dict[str, Any], body: bytes = b"") -> None:
        self.messages.append(header)


def answered(monkeypatch: pytest.MonkeyPatch, error: Exception) -> dict[str, Any]:
    def profile(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(pipeline, "profile", profile)
    channel = Sent()
    header = {"type": "profile", "job": 3, "request": ModelRequest("unet").to_json()}
    device.answer(channel, Inbox(), Message(header, b""))  # type: ignore[arg-type]
    assert len(channel.messages) == 1 and channel.messages[0]["job"] == 3
    return channel.messages[0]


def test_a_fault_inside_is_an_answer_and_its_traceback_is_logged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    message = answered(monkeypatch, RuntimeError("boom"))
    assert message["type"] == "error" and message["message"] == "unexpected RuntimeError: boom"
    assert "Copy report" in message["hint"]
    logged = capsys.readouterr().err
    assert "Traceback" in logged and "RuntimeError: boom" in logged


def test_what_the_user_can_mend_is_said_as_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    message = answered(monkeypatch, LoadError("there is no such model", hint="name another"))
    assert (message["type"], message["message"], message["hint"]) == (
        "error",
        "there is no such model",
        "name another",
    )
    assert answered(monkeypatch, CancelledError("cancelled"))["type"] == "cancelled"
    assert not capsys.readouterr().err
