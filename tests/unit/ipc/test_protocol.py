"""Test that frames survive any cut, and other bytes are refused."""

from __future__ import annotations

import random
import struct

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


@pytest.mark.parametrize(
    "data",
    [
        b"Traceback (most recent call last)",
        struct.pack("<II", 4, 0) + b"nope",
        struct.pack("<II", 2, 0) + b"[]",
        struct.pack("<II", 2, 0) + b"{}",
        struct.pack("<II", 3, 0) + b"\xff{}",
    ],
    ids=["a stray print", "no JSON", "no object", "no type", "no UTF-8"],
)
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        list(FrameDecoder().feed(data))
