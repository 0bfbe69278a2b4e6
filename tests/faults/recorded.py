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
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from checkmate.errors import CancelledError, UsageError
from checkmate.processes.messages import JobProgress, Message
from checkmate.processes.serve import Channel
from checkmate.progress import Cancelled
from checkmate.workers import device
from checkmate.workers.device import DeviceServer
from checkmate.workers.window_messages import WINDOW_MESSAGES, Export, Exported, Profile
from tests.sent import Sent

Asked = Profile | Export


class _Noting(Sent):
    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel

    def send(self, message: Message) -> None:
        super().send(message)
        self._channel.send(message)


def _name(asked: Asked) -> str:
    if isinstance(asked, Export):
        return f"export-{asked.directory.name}"
    return f"profile-{asked.request.batch_size}-{asked.costs}"


def record(folder: Path, serve: Any, channel: Channel, asked: Asked, cancelled: Cancelled) -> Message:
    """Serve as the real process does, and write down what it says."""
    noting = _Noting(channel)
    last: Message = serve(noting, asked, cancelled)
    place = folder / _name(asked)
    if isinstance(last, Exported):
        shutil.copytree(asked.directory, place)
    said = b"".join(map(WINDOW_MESSAGES.encode, (*noting.messages, last)))
    place.with_suffix(".frames").write_bytes(said)
    return last


def play(folder: Path, channel: Channel, asked: Asked, cancelled: Cancelled) -> Message:
    """Say again what was recorded for the same question."""
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


def kept(messages: Iterable[Message]) -> Iterator[Message]:
    """The messages, but few of the progress in one stage."""
    for stage, found in groupby(messages, _stage):
        some = list(found)
        many = stage is not None and len(some) > 3
        yield from (some[0], some[len(some) // 2], some[-1]) if many else some


def _stage(message: Message) -> str | None:
    return message.progress.stage if isinstance(message, JobProgress) else None


class RecordedServer(DeviceServer):
    def work(self, asked: Message) -> Message | None:
        assert isinstance(asked, Asked)
        what, folder = sys.argv[1], Path(sys.argv[2])
        serve = partial(record, folder, self._really) if what == "record" else partial(play, folder)
        return serve(self.channel, asked, partial(self.inbox.cancelled, asked.job))

    def _really(self, channel: Channel, asked: Asked, cancelled: Cancelled) -> Message | None:
        return DeviceServer(channel, self.inbox).work(asked)


if __name__ == "__main__":
    if sys.argv[1] == "play":
        device.steps_are_tensorflows = lambda: False
    RecordedServer.main()
