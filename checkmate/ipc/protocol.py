"""Frames on a pipe: two lengths, two checksums, a JSON header, a raw body.

``u32 header length, u32 body length`` (little endian), the CRC-32 of these eight bytes and that of all that
follows; then the header (UTF-8 JSON, an object with ``type``), then the body. A frame that was cut or damaged
is refused: else a changed length would be waited for, and a changed number believed. What a frame means is
said in ``checkmate.ipc.messages``.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from checkmate.errors import ContentError, ExitCode

_LENGTHS, _SUMS = struct.Struct("<II"), struct.Struct("<II")
_PREFIX = _LENGTHS.size + _SUMS.size
_LARGEST_HEADER = 16 * 2**20
_LARGEST_BODY = 512 * 2**20
_JSON = json.JSONEncoder(separators=(",", ":"), default=str)


class ProtocolError(ContentError):
    """The other process sent bytes that cannot be read. The connection cannot be used any more."""

    exit_code = ExitCode.UNEXPECTED


class Frame(NamedTuple):
    """One frame: a JSON header whose ``type`` names it, and raw bytes."""

    header: dict[str, Any]
    body: bytes = b""


def encode_frame(header: dict[str, Any], body: bytes = b"") -> bytes:
    """Return the bytes of one frame."""
    head = _JSON.encode(header).encode("utf-8")
    lengths = _LENGTHS.pack(len(head), len(body))
    sums = _SUMS.pack(zlib.crc32(lengths), zlib.crc32(body, zlib.crc32(head)))
    return b"".join((lengths, sums, head, body))


@dataclass
class FrameDecoder:
    """Turns bytes into frames, wherever the bytes are cut."""

    _pending: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that ``data`` completes.

        Raises:
            ProtocolError: the bytes are no frames.
        """
        self._pending += data
        while len(self._pending) >= _PREFIX:
            head_size, body_size = _LENGTHS.unpack_from(self._pending)
            of_lengths, of_content = _SUMS.unpack_from(self._pending, _LENGTHS.size)
            if of_lengths != zlib.crc32(self._pending[: _LENGTHS.size]):
                raise ProtocolError("a frame's lengths are damaged, or these bytes are no frame")
            if head_size > _LARGEST_HEADER or body_size > _LARGEST_BODY:
                raise ProtocolError(f"a frame of {head_size} + {body_size} bytes is larger than any message")
            end = _PREFIX + head_size + body_size
            if len(self._pending) < end:
                return
            with memoryview(self._pending) as pending:
                head = bytes(pending[_PREFIX : end - body_size])
                body = bytes(pending[end - body_size : end])
            del self._pending[:end]
            if of_content != zlib.crc32(body, zlib.crc32(head)):
                raise ProtocolError("a frame is damaged")
            yield Frame(_header(head), body)


def _header(head: bytes) -> dict[str, Any]:
    try:
        header = json.loads(head.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ProtocolError("a frame's header is not JSON") from error
    if not isinstance(header, dict) or "type" not in header:
        raise ProtocolError("a frame's header has no type")
    return header
