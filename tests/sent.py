from __future__ import annotations

from checkmate.processes.messages import Message
from checkmate.processes.serve import Channel


class Sent(Channel):
    """Stands where the pipe to the parent is, and keeps what a process sends."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def send(self, message: Message) -> None:
        self.messages.append(message)
