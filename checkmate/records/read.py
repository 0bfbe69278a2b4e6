"""Tell logs and profiles apart, and read either."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from checkmate.errors import FormatError
from checkmate.progress import Cancelled, Progress, Report, never, silent, stop_if
from checkmate.records.memory import ReadRecord
from checkmate.records.oom_log import read_lines
from checkmate.records.profile import records_of
from checkmate.records.xplane import WireError, read_events
from checkmate.units import plural

PROFILE_ENDING = ".xplane.pb"
LOG_ENDINGS = (".log", ".txt", ".out", ".err")
_LONGEST_LINE = 2**13  # bytes; what is longer is cut: TensorFlow's lines are shorter
_LARGEST = 2**31  # bytes; a protobuf message cannot be larger
_START = 4096  # bytes; text has no zeros there
_STRIDE = 2**20  # bytes between reports
_NO_MEMORY = "profile again with tf.profiler.experimental.start(logdir), which records memory by itself"


def is_record(path: Path) -> bool:
    """Whether ``path`` is named like a log or a profile; a folder is one if it holds a profile."""
    if path.is_dir():
        return find_profile(path) is not None
    return path.name.endswith((PROFILE_ENDING, *LOG_ENDINGS))


def find_profile(folder: Path) -> Path | None:
    """Return the newest profile in a log directory.

    TensorBoard's directories have it in ``plugins/profile/RUN``, and Keras's have that in ``train``.
    """
    inside = f"plugins/profile/*/*{PROFILE_ENDING}"
    found = [
        path for pattern in (f"*{PROFILE_ENDING}", inside, f"*/{inside}") for path in folder.glob(pattern)
    ]
    return max(found, key=lambda path: (path.parent.name, path.stat().st_mtime), default=None)


def read_record(path: Path, report: Report = silent, cancelled: Cancelled = never) -> ReadRecord:
    """Return what a log, a profile, or a log directory with a profile says about memory.

    Raises:
        FormatError: it cannot be read, or says nothing about memory. CancelledError: the user stopped it.
    """
    if path.is_dir():
        inside = find_profile(path)
        if inside is None:
            raise FormatError(
                f"{path} is a folder without a TensorFlow profile",
                hint=f"name the log directory that holds plugins/profile, or a *{PROFILE_ENDING} file",
            )
        path = inside
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            if not size:
                raise FormatError(f"{path} is empty", hint="name a log, or a profile")
            watch = _Watch(size, report, cancelled)
            if path.name.endswith(".pb") or b"\0" in file.read(_START):
                return _profile(path, file, watch)
            file.seek(0)
            return _log(path, file, watch)
    except FileNotFoundError:
        raise FormatError(f"there is no file {path}", hint="check the path") from None
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror or error}", hint="check the path") from error


class _Watch:
    def __init__(self, size: int, report: Report, cancelled: Cancelled) -> None:
        self._size, self._report, self._cancelled = size, report, cancelled
        self._told = 0

    def __call__(self, position: int) -> None:
        """Report ``position``; not each, for there may be millions."""
        if position - self._told < _STRIDE:
            return
        self._told = position
        stop_if(self._cancelled)
        self._report(Progress("read", float(position), float(self._size)))


def _log(path: Path, file: BinaryIO, watch: _Watch) -> ReadRecord:
    reading = read_lines(path.name, _lines(file, watch))
    if not reading.records:
        more = (
            f", but {plural(reading.warnings, 'warning')} of one that it did without"
            if reading.warnings
            else ""
        )
        raise FormatError(
            f"{path} holds no out-of-memory error of TensorFlow{more}",
            hint="log all that it prints on standard error: python train.py 2> train.log",
        )
    return reading


def _lines(file: BinaryIO, watch: _Watch) -> Iterator[str]:
    """Yield the lines; what is too long to be one of TensorFlow's is cut."""
    position = 0
    while line := file.readline(_LONGEST_LINE):
        position += len(line)
        watch(position)
        yield line.decode("utf-8", "replace")


def _profile(path: Path, file: BinaryIO, watch: _Watch) -> ReadRecord:
    if path.stat().st_size > _LARGEST:
        raise FormatError(f"{path} is larger than 2 GiB, which no profile is", hint="name a *.xplane.pb file")
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            found = read_events(data, watch)
        except WireError as error:
            raise FormatError(
                f"{path} is no TensorFlow profile, or is damaged: {error}",
                hint=f"name a *{PROFILE_ENDING} file, or a log as plain text",
            ) from error
    if not found.count:
        raise FormatError(f"{path} is a profile without a memory event", hint=_NO_MEMORY)
    return ReadRecord(path.name, records_of(found), found.unread)
