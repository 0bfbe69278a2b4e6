"""Test that messages come out of a pipe as they went in, wherever the bytes are cut.

Anything else is refused, with one type of error.
"""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkmate
from checkmate.processes.messages import (
    Cancel,
    Hello,
    Message,
    MessageError,
    MessageTable,
    NewestJob,
    encode_frame,
)
from checkmate.processes.serve import Inbox

ROOT = str(Path(checkmate.__file__).parents[1])


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Point:
    x: int
    y: float = 0.0

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("x is negative")


class Drawn(Message):
    job: int
    name: str
    sure: bool
    place: Path
    colour: Colour
    points: tuple[Point, ...]
    size: tuple[int, float]
    note: str | None
    facts: Mapping[str, Any]
    pixels: bytes


class Draw(NewestJob):
    size: float


TABLE = MessageTable(Drawn, Draw)
DRAWN = Drawn(
    3, "é", True, Path("a/b"), Colour.RED, (Point(1, 2.5), Point(2)), (1, 0.5), None, {"a": [1]}, b"\0\xff"
)
HEADER: dict[str, Any] = {
    "type": "Drawn",
    "job": 3,
    "name": "é",
    "sure": True,
    "place": "a/b",
    "colour": "red",
    "points": [{"x": 1, "y": 2.5}, {"x": 2, "y": 0.0}],
    "size": [1, 0.5],
    "note": None,
    "facts": {"a": [1]},
}


def test_a_message_is_its_type_its_fields_and_its_body() -> None:
    assert TABLE.encode(DRAWN) == encode_frame(HEADER, b"\0\xff")
    assert read(encode_frame(HEADER, b"\0\xff")) == [DRAWN]


def read(data: bytes) -> list[Message]:
    return list(TABLE.reader().feed(data))


SENT = [Hello("a test", 7), DRAWN, Draw(1, float("inf")), Cancel(1)]
STREAM = b"".join(map(TABLE.encode, SENT))


def test_messages_cut_anywhere_come_out_whole() -> None:
    for cut in range(len(STREAM) + 1):
        reader = TABLE.reader()
        assert [*reader.feed(STREAM[:cut]), *reader.feed(STREAM[cut:])] == SENT
    pick = random.Random(1)
    for _ in range(200):
        reader, found, at = TABLE.reader(), list[Message](), 0
        while at < len(STREAM):
            size = pick.randint(1, 40)
            found += reader.feed(STREAM[at : at + size])
            at += size
        assert found == SENT


def refused(data: bytes) -> list[Message]:
    """Return the messages before the bytes that are refused."""
    reader, found = TABLE.reader(), list[Message]()
    with pytest.raises(MessageError):
        found.extend(reader.feed(data))
    return found


def test_a_byte_that_is_changed_is_noticed_and_not_believed_or_waited_for() -> None:
    for place in range(len(STREAM)):
        changed = bytearray(STREAM)
        changed[place] ^= 1 << place % 8
        found = refused(bytes(changed))
        assert found == SENT[: len(found)], place


def test_bytes_that_are_lost_are_noticed_with_the_next_frames() -> None:
    for lost in range(1, len(TABLE.encode(SENT[-1]))):
        assert refused(STREAM[:-lost] + STREAM) == SENT[:-1], lost


def framed(head: bytes, body: bytes = b"") -> bytes:
    """Return a frame whose checksums are right, whatever its header is."""
    lengths = struct.pack("<II", len(head), len(body))
    return lengths + struct.pack("<II", zlib.crc32(lengths), zlib.crc32(head + body)) + head + body


@pytest.mark.parametrize(
    "data",
    [b"Traceback (most recent call last)", *map(framed, (b"nope", b"[]", b"{}", b"\xff{}"))],
    ids=["a stray print", "no JSON", "no object", "no type", "no UTF-8"],
)
def test_garbage_is_refused(data: bytes) -> None:
    assert refused(data) == []


def test_numbers_of_numpy_are_numbers() -> None:
    sent = Drawn(
        **{**vars(DRAWN), "job": np.int64(3), "sure": np.bool_(True), "size": (np.int32(1), np.float32(0.5))}
    )
    assert read(TABLE.encode(sent)) == [DRAWN]
    with pytest.raises(TypeError, match="'float' object cannot be interpreted as an integer"):
        TABLE.encode(Cancel(1.5))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"type": "Riddle"}, "there is no message of type 'Riddle'"),
        ({"type": None}, "there is no message of type None"),
        ({"type": ["Drawn"]}, "there is no message of type"),
        ({"type": "Message"}, "there is no message of type 'Message'"),
        ({"more": 1}, "Drawn: missing or unknown fields: more"),
        ({"job": "3"}, "Drawn: job: '3' is not a whole number"),
        ({"job": True}, "Drawn: job: True is not a whole number"),
        ({"job": 3.0}, "Drawn: job: 3.0 is not a whole number"),
        ({"job": None}, "Drawn: job: None is not a whole number"),
        ({"name": 1}, "Drawn: name: 1 is not a text"),
        ({"sure": 1}, "Drawn: sure: 1 is not true or false"),
        ({"place": None}, "Drawn: place: None is not a text"),
        ({"colour": "blue"}, "Drawn: colour: 'blue' is not a Colour"),
        ({"colour": []}, "Drawn: colour: [] is not a Colour"),
        ({"points": {}}, "Drawn: points: {} is not a list"),
        ({"points": [3]}, "Drawn: points: 3 is not an object"),
        ({"points": [{"x": 1}]}, "Drawn: points: missing or unknown fields: y"),
        ({"points": [{"x": -1, "y": 0.0}]}, "Drawn: points: x is negative"),
        ({"points": [{"x": 1, "y": "0"}]}, "Drawn: points: y: '0' is not a number"),
        ({"size": [1]}, "Drawn: size: [1] is not a list of 2"),
        ({"size": [1, True]}, "Drawn: size: True is not a number"),
        ({"note": 5}, "Drawn: note: 5 is not a text"),
        ({"facts": []}, "Drawn: facts: [] is not an object"),
    ],
)
def test_invalid_messages_are_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(MessageError) as error:
        read(encode_frame({**HEADER, **change}))
    assert said in str(error.value)


def test_a_body_goes_with_messages_that_have_one() -> None:
    with pytest.raises(MessageError, match="should have none"):
        read(encode_frame({"type": "Cancel", "job": 1}, b"x"))
    assert read(encode_frame(HEADER)) == [Drawn(**{**vars(DRAWN), "pixels": b""})]


def test_only_messages_of_the_table_are_sent() -> None:
    with pytest.raises(MessageError, match="NewestJob is not in the table"):
        TABLE.encode(NewestJob(1))
    with pytest.raises(ValueError, match="one name"):
        MessageTable(Drawn, Drawn)


def test_a_class_that_cannot_be_written_is_refused() -> None:
    class Twice(Message):
        one: bytes
        two: bytes

    class Odd(Message):
        call: Callable[[], None]

    with pytest.raises(TypeError, match="more than one body"):
        MessageTable(Twice).encode(Twice(b"", b""))
    with pytest.raises(TypeError, match="cannot hold"):
        MessageTable(Odd).encode(Odd(lambda: None))


def test_a_newer_job_cancels_the_older_one() -> None:
    inbox = Inbox()
    inbox.receive(Draw(1, 2.0))
    assert not inbox.cancelled(1)
    inbox.receive(Draw(2, 3.0))
    assert inbox.cancelled(1) and not inbox.cancelled(2)
    inbox.receive(DRAWN)
    inbox.receive(Cancel(2))
    assert inbox.cancelled(2)
    assert [inbox.get(), inbox.get(), inbox.get(), inbox.empty()] == [Draw(1, 2.0), Draw(2, 3.0), DRAWN, True]


CHILD = """
import time
from checkmate.processes.messages import MessageTable
from checkmate.processes.serve import Server
class Waiting(Server):
    kind, table = "test", MessageTable()
    def work(self, asked):
        time.sleep(60)
Waiting.main()
"""


@pytest.mark.parametrize(
    "given", [encode_frame({"type": "Riddle"}), b"no frame at all, but long enough", b""]
)
def test_a_child_ends_with_its_input_and_when_it_cannot_read_it(given: bytes) -> None:
    child = subprocess.run(
        [sys.executable, "-c", CHILD], input=given, capture_output=True, cwd=ROOT, timeout=60
    )
    assert child.returncode == (1 if given else 0)
    assert (b"Error" in child.stderr) is bool(given)
    hello = next(MessageTable().reader().feed(child.stdout))
    assert isinstance(hello, Hello) and hello.kind == "test" and hello.pid not in (0, os.getpid())
