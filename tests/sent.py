"""A channel that keeps what a process sends."""

from __future__ import annotations

from checkmate.processes.messages import Message
from checkmate.processes.serve import Channel


class Sent(Channel):
    """Stand where the pipe to the parent is."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def send(self, message: Message) -> None:
        self.messages.append(message)
