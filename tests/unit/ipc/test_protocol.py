"""Test that frames survive any cut, and other bytes are refused."""

from __future__ import annotations

import random
import struct
import zlib

import pytest

from checkmate.ipc.protocol import FrameDecoder, ProtocolError, encode_frame

FRAMES = [
    ({"type": "hello"}, b""),
    ({"type": "point", "job": 3}, bytes(range(256)) * 5),
    ({"type": "é", "x": [1]}, b"\0"),
]
STREAM = b"".join(encode_frame(*frame) for frame in FRAMES)


def test_frames_cut_at_every_byte_come_out_whole() -> None:
    for cut in range(len(STREAM) + 1):
        decoder = FrameDecoder()
        found = [*decoder.feed(STREAM[:cut]), *decoder.feed(STREAM[cut:])]
        assert [(m.header, m.body) for m in found] == FRAMES


def test_frames_in_random_pieces_come_out_whole() -> None:
    pick = random.Random(1)
    for _ in range(200):
        decoder, found, at = FrameDecoder(), [], 0
        while at < len(STREAM):
            size = pick.randint(1, 40)
            found += decoder.feed(STREAM[at : at + size])
            at += size
        assert [(m.header, m.body) for m in found] == FRAMES


def framed(head: bytes, body: bytes = b"") -> bytes:
    """Return a frame whose checksums are right, whatever its header is."""
    lengths = struct.pack("<II", len(head), len(body))
    return lengths + struct.pack("<II", zlib.crc32(lengths), zlib.crc32(head + body)) + head + body


def refused(data: bytes) -> list[tuple[dict[str, object], bytes]]:
    """Return the frames before the bytes that are refused."""
    decoder, found = FrameDecoder(), []
    with pytest.raises(ProtocolError):
        found.extend((m.header, m.body) for m in decoder.feed(data))
    return found


def test_a_byte_that_is_changed_is_noticed_and_not_believed_or_waited_for() -> None:
    for place in range(len(STREAM)):
        changed = bytearray(STREAM)
        changed[place] ^= 1 << place % 8
        found = refused(bytes(changed))
        assert found == FRAMES[: len(found)], place


def test_bytes_that_are_lost_are_noticed_with_the_next_frames() -> None:
    for lost in range(1, len(encode_frame(*FRAMES[-1]))):
        assert refused(STREAM[:-lost] + STREAM) == FRAMES[:-1], lost


@pytest.mark.parametrize(
    "data",
    [b"Traceback (most recent call last)", *map(framed, (b"nope", b"[]", b"{}", b"\xff{}"))],
    ids=["a stray print", "no JSON", "no object", "no type", "no UTF-8"],
)
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        list(FrameDecoder().feed(data))
