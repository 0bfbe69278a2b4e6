"""Tell logs, profiles, dumps of XLA's and snapshots of PyTorch's apart, and read any."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from checkmate.errors import FormatError
from checkmate.hlo.read import is_dump, read_dump
from checkmate.progress import Cancelled, Progress, Report, never, silent, stop_if
from checkmate.records.compiled import record_of
from checkmate.records.memory import ReadRecord
from checkmate.records.oom_log import read_lines
from checkmate.records.profile import records_of
from checkmate.records.xplane import read_events
from checkmate.units import plural
from checkmate.wire import WireError

PROFILE_ENDING = ".xplane.pb"
DUMP_ENDING = ".hlo.pb"
SNAPSHOT_ENDINGS = (".pickle", ".pkl")
LOG_ENDINGS = (".log", ".txt", ".out", ".err")
_LONGEST_LINE = 2**13  # bytes; what is longer is cut: TensorFlow's lines are shorter
_LARGEST = 2**31  # bytes; a protobuf message cannot be larger
_START = 4096  # bytes; text has no zeros there
_STRIDE = 2**20  # bytes between reports
_NO_MEMORY = "profile again with tf.profiler.experimental.start(logdir), which records memory by itself"


def is_record(path: Path) -> bool:
    """Whether ``path`` is named like a log, a profile or a snapshot; a folder is one if it holds a profile. A
    dump of a whole step is none: it is a graph.
    """
    if path.is_dir():
        return find_profile(path) is not None
    return path.name.endswith((PROFILE_ENDING, *LOG_ENDINGS, *SNAPSHOT_ENDINGS)) and not is_dump(
        path, of_module=True
    )


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
    """Return what a log, a profile, a log directory with a profile, a dump of XLA's or a snapshot says about
    memory.

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
            if not path.name.endswith(PROFILE_ENDING) and is_dump(path):
                return ReadRecord(path.name, (record_of(path, read_dump(path, watch)),))
            start = file.read(_START)
            if not path.name.endswith(".pb") and (_is_pickle(start) or path.name.endswith(SNAPSHOT_ENDINGS)):
                return _snapshot(path, file, watch)
            if path.name.endswith(".pb") or b"\0" in start:
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
            f"{path} holds no out-of-memory error of TensorFlow, PyTorch or JAX{more}",
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


def _is_pickle(start: bytes) -> bool:
    return start[0] == 0x80 and start[1:2] in (b"\2", b"\3", b"\4", b"\5")  # its protocol


def _snapshot(path: Path, file: BinaryIO, watch: _Watch) -> ReadRecord:
    from checkmate.records.torch_snapshot import read_snapshot  # numba takes half a second

    try:
        records = read_snapshot(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), watch)
    except ValueError as error:
        raise FormatError(
            f"{path} is no memory snapshot of PyTorch: {error}",
            hint="write one with torch.cuda.memory._dump_snapshot(FILE)",
        ) from error
    if not records:
        raise FormatError(
            f"{path} is a snapshot without memory in it",
            hint="call torch.cuda.memory._record_memory_history() before training",
        )
    return ReadRecord(path.name, records)
