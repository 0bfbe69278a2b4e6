"""The messages between a compilation and its processes."""

from __future__ import annotations

from dataclasses import dataclass

from checkmate.ipc.messages import Message, MessageTable


@dataclass(frozen=True)
class Compile(Message):
    """Compile the kernel of this name into the cache."""

    name: str


@dataclass(frozen=True)
class KernelDone(Message):
    """The kernel is in the cache; ``error``: why it is not, else None."""

    name: str
    error: str | None


COMPILE_MESSAGES = MessageTable(Compile, KernelDone)
