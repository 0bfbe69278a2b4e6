"""Tell XLA's dumps by their content, and read them."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from checkmate.errors import FormatError
from checkmate.hlo.assignment import Allocation, begins_as_assignment, read_assignment
from checkmate.hlo.module import HloError, Module
from checkmate.hlo.proto import begins_as_proto, read_proto
from checkmate.hlo.text import begins_as_module, read_module
from checkmate.wire import WireError

_START = 4096  # bytes
_LONGEST_LINE = 2**26  # characters; large constants are printed in one line
_LARGEST = 2**31  # bytes; a protobuf message cannot be larger
_HINT = "dump it again with XLA_FLAGS=--xla_dump_to=FOLDER, or write compiled.as_text() to a file"


@dataclass(frozen=True, eq=False)
class Dump:
    """A module, XLA's buffer assignment, or both."""

    module: Module | None
    allocations: tuple[Allocation, ...] = ()


def is_dump(path: Path, *, of_module: bool = False) -> bool:
    """Whether a file begins as a dump of XLA's does; ``of_module``: as one that has the program."""
    try:
        with path.open("rb") as file:
            start = file.read(_START)
    except OSError:
        return False
    if begins_as_module(start) or (begins_as_assignment(start) and not of_module):
        return True
    return begins_as_proto(start)


def read_dump(path: Path, heard: Callable[[int], None] = lambda _: None) -> Dump:
    """Return what a dump has. ``heard`` is told how many bytes were read so far; it may raise to stop.

    Raises:
        FormatError: it is damaged, or cannot be read.
    """
    try:
        with path.open("rb") as file:
            start = file.read(_START)
            if begins_as_module(start) or begins_as_assignment(start):
                file.seek(0)
                lines = _lines(file.readline, heard)
                if begins_as_module(start):
                    return Dump(read_module(lines))
                return Dump(None, read_assignment(lines))
            if path.stat().st_size > _LARGEST:
                raise HloError("it is larger than 2 GiB, which no protobuf message is")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return Dump(*read_proto(data, heard))
    except (HloError, WireError) as error:
        raise damaged(path, error) from error
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror or error}", hint="check the path") from error


def damaged(path: Path, error: Exception) -> FormatError:
    return FormatError(f"{path} is a damaged dump of XLA's: {error}", hint=_HINT)


def _lines(readline: Callable[[int], bytes], heard: Callable[[int], None]) -> Iterator[str]:
    position = 0
    while line := readline(_LONGEST_LINE):
        position += len(line)
        heard(position)
        yield line.decode("utf-8", "replace")
