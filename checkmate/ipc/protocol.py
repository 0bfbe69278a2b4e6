"""Frames between the window and its workers: two lengths, a JSON header, a raw body.

``u32 header length, u32 body length`` (little endian), then the header (UTF-8 JSON, an object with ``type``), then the body.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from checkmate.errors import CheckmateError

PROTOCOL = 1
_LENGTHS = struct.Struct("<II")
_LARGEST_HEADER = 16 * 2**20
_LARGEST_BODY = 512 * 2**20


class ProtocolError(CheckmateError):
    """The other side sent what is no frame; the connection cannot be used any more."""

    exit_code = 1


@dataclass(frozen=True)
class Message:
    """One frame: ``header["type"]`` says what it is, ``header.get("job")`` what it belongs to."""

    header: dict[str, Any]
    body: bytes = b""

    @property
    def type(self) -> str:
        """What the message is."""
        return str(self.header.get("type", ""))

    @property
    def job(self) -> int:
        """The job it belongs to; 0 for none."""
        return int(self.header.get("job", 0))


def encode(header: dict[str, Any], body: bytes = b"") -> bytes:
    """One frame."""
    head = json.dumps(header, separators=(",", ":"), default=str).encode("utf-8")
    return _LENGTHS.pack(len(head), len(body)) + head + body


@dataclass
class Decoder:
    """Turns bytes, however they are cut, into messages."""

    _pending: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> Iterator[Message]:
        """The messages that ``data`` completes.

        Raises:
            ProtocolError: the bytes are no frames.
        """
        self._pending += data
        while len(self._pending) >= _LENGTHS.size:
            head_size, body_size = _LENGTHS.unpack_from(self._pending)
            if head_size > _LARGEST_HEADER or body_size > _LARGEST_BODY:
                raise ProtocolError(f"a frame of {head_size} + {body_size} bytes is larger than any message")
            end = _LENGTHS.size + head_size + body_size
            if len(self._pending) < end:
                return
            head = bytes(self._pending[_LENGTHS.size : _LENGTHS.size + head_size])
            body = bytes(self._pending[_LENGTHS.size + head_size : end])
            del self._pending[:end]
            try:
                header = json.loads(head)
            except ValueError as error:
                raise ProtocolError("a frame's header is no JSON") from error
            if not isinstance(header, dict) or "type" not in header:
                raise ProtocolError("a frame's header has no type")
            yield Message(header, body)
