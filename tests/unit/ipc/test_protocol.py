"""Frames survive any cut, and what is no frame is refused."""

from __future__ import annotations

import random
import struct

import pytest

from checkmate.ipc.child import Inbox
from checkmate.ipc.protocol import Decoder, Message, ProtocolError, encode

MESSAGES = [
    ({"type": "hello"}, b""),
    ({"type": "point", "job": 3}, bytes(range(256)) * 5),
    ({"type": "é", "x": [1]}, b"\0"),
]
STREAM = b"".join(encode(*message) for message in MESSAGES)


def test_frames_cut_at_every_byte_come_out_whole() -> None:
    for cut in range(len(STREAM) + 1):
        decoder = Decoder()
        found = [*decoder.feed(STREAM[:cut]), *decoder.feed(STREAM[cut:])]
        assert [(m.header, m.body) for m in found] == MESSAGES


def test_frames_in_random_pieces_come_out_whole() -> None:
    pick = random.Random(1)
    for _ in range(200):
        decoder, found, at = Decoder(), [], 0
        while at < len(STREAM):
            size = pick.randint(1, 40)
            found += decoder.feed(STREAM[at : at + size])
            at += size
        assert [(m.header, m.body) for m in found] == MESSAGES


@pytest.mark.parametrize(
    "data",
    [
        b"Traceback (most recent call last)",
        struct.pack("<II", 4, 0) + b"nope",
        struct.pack("<II", 2, 0) + b"[]",
    ],
    ids=["a stray print", "no JSON", "no object"],
)
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        list(Decoder().feed(data))


def test_newer_solve_supersedes_the_older_one() -> None:
    inbox = Inbox()
    inbox.put(Message({"type": "solve", "job": 1, "supersedes": True}))
    assert not inbox.cancelled(1)
    inbox.put(Message({"type": "solve", "job": 2, "supersedes": True}))
    assert inbox.cancelled(1) and not inbox.cancelled(2)
    inbox.put(Message({"type": "cancel", "job": 2}))
    assert inbox.cancelled(2)
