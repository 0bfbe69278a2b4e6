"""The wire format of protobuf messages, read in place."""

from __future__ import annotations

import mmap
from collections.abc import Iterator

Buffer = bytes | mmap.mmap
# A field: its number, its number of eight bytes or fewer (0 for a nested one), and where nested bytes are.
Field = tuple[int, int, int, int]

_VARINT, _FIXED64, _NESTED, _FIXED32 = 0, 1, 2, 5
_MOST_SHIFT = 63  # bits; a longer number is no varint


class WireError(ValueError):
    """The bytes are no protobuf message."""


def fields(data: Buffer, start: int, end: int) -> Iterator[Field]:
    """Yield (number, value, start, end) of each field of the message between ``start`` and ``end``.

    The value of a nested field is 0, and its bytes are between start and end. Fixed numbers are unsigned
    bits.

    Raises:
        WireError: the bytes are no message.
    """
    position = start
    while position < end:
        key = data[position]
        position += 1
        if key >= 0x80:
            key, position = _varint(data, position - 1, end)
        kind = key & 7
        if kind == _VARINT:
            value, position = _varint(data, position, end)
            yield key >> 3, value, position, position
        elif kind == _NESTED:
            size, position = _varint(data, position, end)
            if size > end - position:
                raise WireError("a part is longer than the whole")
            yield key >> 3, 0, position, position + size
            position += size
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
            if size > end - position:
                raise WireError("a number is cut off")
            yield key >> 3, int.from_bytes(data[position : position + size], "little"), position, position
            position += size
        else:
            raise WireError(f"there is no field of kind {kind}")


def numbers_at(data: Buffer, field: Field) -> Iterator[int]:
    """Yield the numbers of a repeated field, whether they are packed or stand alone."""
    _, value, position, end = field
    if position == end:
        yield value
    while position < end:
        value, position = _varint(data, position, end)
        yield value


def text_at(data: Buffer, start: int, end: int, most: int = 4096) -> str:
    """Return the text between ``start`` and ``end``, cut to ``most`` bytes."""
    return data[start : min(end, start + most)].decode("utf-8", "replace")


def _varint(data: Buffer, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while position < end:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > _MOST_SHIFT:
            break
    raise WireError("a number is cut off or too long")
