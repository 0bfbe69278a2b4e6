"""Record the answers of the device's process, and play them again.

A profile and an export take minutes, nearly all inside TensorFlow, and hundreds of messages. So that every
message can be harmed, the real process is recorded once. Then ``python -m tests.faults.recorded play FOLDER``
takes its place: it is the same program, which reads, cancels and answers as always, but its work is to say
again what was recorded. Of progress in one stage the first message, one in the middle and the last are kept.
"""

from __future__ import annotations

import dataclasses
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from checkmate.errors import CancelledError, UsageError
from checkmate.ipc.child import Channel
from checkmate.ipc.messages import Message
from checkmate.progress import Cancelled
from checkmate.workers import device
from checkmate.workers.messages.device import DeviceProgress, Export, Exported, Profile
from checkmate.workers.messages.table import WINDOW_MESSAGES

Asked = Profile | Export
Serve = Callable[[Channel, Asked, Cancelled], Message]


class _Noting:
    """Pass messages on to a channel, and keep them."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.messages: list[Message] = []

    def send(self, message: Message) -> None:
        self.messages.append(message)
        self._channel.send(message)


def _name(asked: Asked) -> str:
    if isinstance(asked, Export):
        return f"export-{asked.directory.name}"
    return f"profile-{asked.request.batch_size}-{asked.costs}"


def recording(folder: Path, serve: Any) -> Serve:
    """Return what serves as the real process does, and records it."""

    def record(channel: Channel, asked: Asked, cancelled: Cancelled) -> Message:
        noting = _Noting(channel)
        last: Message = serve(noting, asked, cancelled)
        place = folder / _name(asked)
        if isinstance(last, Exported):
            shutil.copytree(asked.directory, place)
        said = b"".join(map(WINDOW_MESSAGES.encode, (*noting.messages, last)))
        place.with_suffix(".frames").write_bytes(said)
        return last

    return record


def playing(folder: Path) -> Serve:
    """Return what says again what was recorded for the same question."""

    def play(channel: Channel, asked: Asked, cancelled: Cancelled) -> Message:
        place = folder / _name(asked)
        path = place.with_suffix(".frames")
        if not path.exists():
            raise UsageError(f"no answer to {_name(asked)} was recorded")
        *first, last = (
            dataclasses.replace(message, job=asked.job)  # type: ignore[call-arg]
            for message in kept(WINDOW_MESSAGES.reader().feed(path.read_bytes()))
        )
        for message in first:
            if cancelled():
                raise CancelledError("cancelled")
            channel.send(message)
        if isinstance(asked, Export) and isinstance(last, Exported):
            shutil.copytree(place, asked.directory, dirs_exist_ok=True)
        return last

    return play


def kept(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield the messages, but few of the progress in one stage."""
    for stage, found in groupby(messages, _stage):
        some = list(found)
        many = stage is not None and len(some) > 3
        yield from (some[0], some[len(some) // 2], some[-1]) if many else some


def _stage(message: Message) -> str | None:
    return message.progress.stage if isinstance(message, DeviceProgress) else None


def main() -> int:
    """Record or play."""
    what, folder = sys.argv[1], Path(sys.argv[2])
    if what == "record":
        device._serve = recording(folder, device._serve)
    else:
        device._serve = playing(folder)
        device.why_unsupported = lambda: "TensorFlow is not needed here"
    return device.main()


if __name__ == "__main__":
    sys.exit(main())
