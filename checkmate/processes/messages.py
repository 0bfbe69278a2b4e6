"""Messages between processes: dataclasses, the table of those that a pipe carries, and their frames.

A message's class name is its type on the pipe, its fields are the frame's header. One field may be ``bytes``;
it travels raw, as the frame's body. No field may be called ``type``.

A frame is ``u32 header length, u32 body length`` (little endian), the CRC-32 of these eight bytes and that of
all that follows; then the header (UTF-8 JSON), then the body. A frame that was cut or damaged is refused:
else a changed length would be waited for, and a changed number believed.

``job``: the number that the parent gave the work. ``steps``: a schedule's op indices in order, int32.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, Self, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from checkmate import errors
from checkmate.errors import CheckmateError, ContentError, ExitCode
from checkmate.fields import FieldError, hints_of, read_fields, write_fields
from checkmate.progress import Progress
from checkmate.request import as_options

_LENGTHS, _SUMS = struct.Struct("<II"), struct.Struct("<II")
_PREFIX = _LENGTHS.size + _SUMS.size
_LARGEST_HEADER, _LARGEST_BODY = 16 * 2**20, 512 * 2**20
_JSON = json.JSONEncoder(separators=(",", ":"), default=str)
_STEP = np.dtype(np.int32)


class MessageError(ContentError):
    """What the other process sent cannot be read. The connection cannot be used any more."""

    exit_code = ExitCode.UNEXPECTED


@dataclass_transform(frozen_default=True)
class Message:
    """Something that one process tells another; each subclass is a frozen dataclass."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)


class Hello(Message):
    """The first message of every child process: it runs, and listens. ``kind``: what it is, in words."""

    kind: str
    pid: int


class Job(Message):
    """Work that is asked for; it ends with an answer, or a ``JobCancelled`` or ``JobFailed``."""

    job: int


class NewestJob(Job):
    """Work that takes the place of all older work, which is cancelled as soon as this arrives."""


class Cancel(Message):
    """Stop the job of this number, also while it is being worked on."""

    job: int


class JobProgress(Message):
    """How far a job is, and what is being done."""

    job: int
    progress: Progress


class JobCancelled(Message):
    """The job has ended, or was not begun: it was cancelled, or a newer one had come."""

    job: int


class JobFailed(Message):
    """The job, 0 for none, failed: the error's type, a sentence for the user, and what can be done, as on the
    command line."""

    job: int
    error: str
    message: str
    hint: str

    @classmethod
    def of(cls, job: int, error: CheckmateError) -> Self:
        return cls(job, type(error).__name__, str(error), as_options(error.hint))

    def is_a(self, kind: type[CheckmateError]) -> bool:
        found = getattr(errors, self.error, None)
        return isinstance(found, type) and issubclass(found, kind)

    @property
    def sentence(self) -> str:
        return f"{self.message}: {self.hint}" if self.hint else self.message


EVERYWHERE = (Hello, Cancel, JobProgress, JobCancelled, JobFailed)


class CarriesSteps:
    """A message whose body is a schedule's steps; half a number at its end cannot be made or received."""

    steps: bytes

    def __post_init__(self) -> None:
        unpack_steps(self.steps)


def pack_steps(steps: Sequence[int] | NDArray[np.integer]) -> bytes:
    return np.asarray(steps, _STEP).tobytes()


def unpack_steps(body: bytes) -> NDArray[np.int32]:
    """Packed op indices; read-only, nothing is copied. ``MessageError``: they are no whole numbers."""
    if len(body) % _STEP.itemsize:
        raise MessageError(f"a schedule of {len(body)} bytes has no whole number of steps")
    return np.frombuffer(body, _STEP)


def unpack_ops(body: bytes, ops: int) -> NDArray[np.int32]:
    """Steps that all name ops: compiled code reads memory by these numbers. Else ``MessageError``."""
    steps = unpack_steps(body)
    if steps.size and (steps.min() < 0 or steps.max() >= ops):
        wrong = int(steps[(steps < 0) | (steps >= ops)][0])
        raise MessageError(f"a schedule names op {wrong}, and there are {ops}")
    return steps


class MessageTable:
    """The messages that the two ends of a pipe know, by class name; those of ``EVERYWHERE`` always."""

    def __init__(self, *classes: type[Message]) -> None:
        self.classes = (*EVERYWHERE, *classes)
        self._by_name: dict[str, type] = {kind.__name__: kind for kind in self.classes}
        if len(self._by_name) != len(self.classes):
            raise ValueError("two messages have one name")

    @classmethod
    def of(cls, module: ModuleType) -> Self:
        own = [kind for kind in vars(module).values() if getattr(kind, "__module__", "") == module.__name__]
        return cls(*(kind for kind in own if isinstance(kind, type) and issubclass(kind, Message)))

    def encode(self, message: Message) -> bytes:
        name = type(message).__name__
        if self._by_name.get(name) is not type(message):
            raise MessageError(f"{name} is not in the table of messages")
        body, hints = _layout(self._by_name[name])
        header = {"type": name, **write_fields(hints, message)}
        return encode_frame(header, getattr(message, body) if body else b"")

    def decode(self, head: bytes, body: bytes) -> Message:
        try:
            header = json.loads(head.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise MessageError("a frame's header is not JSON") from error
        name = header.pop("type", None) if isinstance(header, dict) else None
        if not isinstance(name, str) or name not in self._by_name:
            raise MessageError(f"there is no message of type {name!r}")
        raw, hints = _layout(self._by_name[name])
        if body and not raw:
            raise MessageError(f"{name} has a body of {len(body)} bytes, and should have none")
        try:
            found = read_fields(hints, header)
        except FieldError as error:
            raise MessageError(f"{name}: {error}") from error
        if raw:
            found[raw] = body
        message: Message = self._by_name[name](**found)
        return message

    def reader(self) -> MessageReader:
        return MessageReader(self)


class MessageReader:
    def __init__(self, table: MessageTable) -> None:
        self._table, self._pending = table, bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield the messages that ``data`` completes."""
        self._pending += data
        while len(self._pending) >= _PREFIX:
            head_size, body_size = _LENGTHS.unpack_from(self._pending)
            of_lengths, of_content = _SUMS.unpack_from(self._pending, _LENGTHS.size)
            if of_lengths != zlib.crc32(self._pending[: _LENGTHS.size]):
                raise MessageError("a frame's lengths are damaged, or these bytes are no frame")
            if head_size > _LARGEST_HEADER or body_size > _LARGEST_BODY:
                raise MessageError(f"a frame of {head_size} + {body_size} bytes is larger than any message")
            end = _PREFIX + head_size + body_size
            if len(self._pending) < end:
                return
            with memoryview(self._pending) as pending:
                head = bytes(pending[_PREFIX : end - body_size])
                body = bytes(pending[end - body_size : end])
            del self._pending[:end]
            if of_content != zlib.crc32(body, zlib.crc32(head)):
                raise MessageError("a frame is damaged")
            yield self._table.decode(head, body)


def encode_frame(header: dict[str, Any], body: bytes = b"") -> bytes:
    head = _JSON.encode(header).encode("utf-8")
    lengths = _LENGTHS.pack(len(head), len(body))
    sums = _SUMS.pack(zlib.crc32(lengths), zlib.crc32(body, zlib.crc32(head)))
    return b"".join((lengths, sums, head, body))


@cache
def _layout(kind: type) -> tuple[str, dict[str, Any]]:
    """Return the field that is the frame's body, "" for none, and the types of all other fields."""
    raw = [name for name, hint in hints_of(kind).items() if hint is bytes]
    if len(raw) > 1:
        raise TypeError(f"{kind.__name__} has more than one body: {', '.join(raw)}")
    return "".join(raw), {name: hint for name, hint in hints_of(kind).items() if name not in raw}
