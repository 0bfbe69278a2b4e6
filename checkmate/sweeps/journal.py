"""What a sweep has finished, as a file of JSON lines.

A line counts once it ends in a newline, and is on the disk before the sweep goes on. So the file says exactly
what was finished, even if a process is killed at any moment.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any, NoReturn

from checkmate.errors import FormatError, SchemaVersionError, UsageError
from checkmate.formats.files import require_writable

FORMAT, VERSION = "checkmate-sweep", 1
Data = dict[str, Any]
_HINT = "give another journal, or remove this one"


class Journal:
    """Use ``open_journal``."""

    def __init__(self, file: FileIO, found: dict[str, Data]) -> None:
        self._file, self._found = file, found

    def get(self, key: str) -> Data | None:
        return self._found.get(key)

    def __len__(self) -> int:
        return len(self._found)

    def add(self, key: str, name: str, data: Mapping[str, Any]) -> None:
        """Record a finished task; it is on the disk when this returns."""
        _append(self._file, _line({"key": key, "name": name, "data": dict(data)}))
        self._found[key] = dict(data)


@contextmanager
def open_journal(path: Path) -> Iterator[Journal]:
    """Yield the journal at ``path``, new or to be resumed, locked. A truncated last line is removed.

    Raises:
        FormatError: it cannot be written or is no journal. SchemaVersionError: a newer program wrote it.
        UsageError: another sweep is writing it.
    """
    require_writable(path)
    try:
        file = open(path, "a+b", buffering=0)  # noqa: SIM115 - closed below, whatever happens
    except OSError as error:
        raise FormatError(
            f"cannot write {path}: {error.strerror or error}", hint="choose another place"
        ) from error
    with file:
        _hold(file, path)
        file.seek(0)
        body = file.read()
        found, whole = _parsed(path, body)
        file.truncate(whole)
        if whole == 0:
            _append(file, _header())
        yield Journal(file, found)


def _append(file: FileIO, line: bytes) -> None:
    """Write a whole line and wait for the disk; leave nothing of it where that cannot be."""
    end = file.seek(0, os.SEEK_END)
    left = memoryview(line)
    try:
        while left:
            left = left[file.write(left) :]
        os.fsync(file.fileno())
    except OSError as error:
        with suppress(OSError):
            file.truncate(end)  # else the next line would continue it
        raise FormatError(
            f"cannot write {file.name}: {error.strerror or error}",
            hint="free some space; the lines before this one are intact",
        ) from error


def _header() -> bytes:
    return _line({"format": FORMAT, "version": VERSION})


def _line(data: Mapping[str, Any]) -> bytes:
    return (
        json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8") + b"\n"
    )


def _parsed(path: Path, body: bytes) -> tuple[dict[str, Data], int]:
    """Return the finished tasks, and how many bytes are whole lines."""
    whole = body.rfind(b"\n") + 1
    if whole == 0 and _header().startswith(body):
        return {}, 0
    lines = body[:whole].split(b"\n")[:-1]
    _require_header(path, _json(lines[0]) if lines else None)
    found: dict[str, Data] = {}
    for number, line in enumerate(lines[1:], start=2):
        entry = _json(line)
        if (
            not isinstance(entry, dict)
            or not isinstance(entry.get("key"), str)
            or not isinstance(entry.get("data"), dict)
        ):
            raise FormatError(
                f"{path}: line {number} is not a finished task", hint="remove that line, or " + _HINT
            )
        found[entry["key"]] = entry["data"]
    return found, whole


def _require_header(path: Path, header: Any) -> None:
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise FormatError(f"{path} is not the journal of a sweep", hint=_HINT)
    version = header.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise SchemaVersionError(
            f"{path}: version {version} of {FORMAT} is newer than this program reads ({VERSION})",
            hint="update checkmate",
        )
    if version < VERSION:
        raise FormatError(f"{path}: version {version} of {FORMAT} is not {VERSION}", hint=_HINT)


def _json(line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _hold(file: FileIO, path: Path) -> None:
    try:
        import fcntl
    except ModuleNotFoundError:
        return
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(
            f"another sweep is writing {path}", hint="wait until it ends, or give another journal"
        ) from None
    except OSError:
        return  # a file system without locks
