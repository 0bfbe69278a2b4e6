"""Test that messages come out of a pipe as they went in.

Anything else is refused, with one type of error.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkmate
from checkmate.ipc.child import Inbox
from checkmate.ipc.messages import Cancel, Hello, Message, MessageError, MessageTable, NewestJob
from checkmate.ipc.protocol import Frame, ProtocolError, encode_frame

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


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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
    assert TABLE.decode(Frame(dict(HEADER), b"\0\xff")) == DRAWN


def test_messages_cut_anywhere_come_out_whole() -> None:
    sent = [Hello("a test", 7), DRAWN, Draw(1, float("inf")), Cancel(1)]
    stream = b"".join(map(TABLE.encode, sent))
    for cut in range(len(stream) + 1):
        reader = TABLE.reader()
        assert [*reader.feed(stream[:cut]), *reader.feed(stream[cut:])] == sent


def test_numbers_of_numpy_are_numbers() -> None:
    sent = Drawn(
        **{**vars(DRAWN), "job": np.int64(3), "sure": np.bool_(True), "size": (np.int32(1), np.float32(0.5))}
    )
    assert list(TABLE.reader().feed(TABLE.encode(sent))) == [DRAWN]
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
        list(TABLE.reader().feed(encode_frame({**HEADER, **change}, b"")))
    assert said in str(error.value) and isinstance(error.value, ProtocolError)


@pytest.mark.parametrize("field", [name for name in HEADER if name != "type"])
def test_no_field_may_be_missing(field: str) -> None:
    header = {name: value for name, value in HEADER.items() if name != field}
    with pytest.raises(MessageError, match=f"missing or unknown fields: {field}"):
        TABLE.decode(Frame(header))


def test_a_body_goes_with_messages_that_have_one() -> None:
    with pytest.raises(MessageError, match="should have none"):
        TABLE.decode(Frame({"type": "Cancel", "job": 1}, b"x"))
    assert TABLE.decode(Frame(dict(HEADER))) == Drawn(**{**vars(DRAWN), "pixels": b""})


def test_only_messages_of_the_table_are_sent() -> None:
    with pytest.raises(MessageError, match="NewestJob is not in the table"):
        TABLE.encode(NewestJob(1))
    with pytest.raises(ValueError, match="one name"):
        MessageTable(Drawn, Drawn)


def test_a_class_that_cannot_be_written_is_refused() -> None:
    @dataclass(frozen=True)
    class Twice(Message):
        one: bytes
        two: bytes

    @dataclass(frozen=True)
    class Odd(Message):
        call: Callable[[], None]

    with pytest.raises(TypeError, match="more than one body"):
        MessageTable(Twice).encode(Twice(b"", b""))
    with pytest.raises(TypeError, match="cannot hold"):
        MessageTable(Odd).encode(Odd(lambda: None))


def test_a_newer_job_cancels_the_older_one() -> None:
    inbox = Inbox()
    inbox.put(Draw(1, 2.0))
    assert not inbox.cancelled(1)
    inbox.put(Draw(2, 3.0))
    assert inbox.cancelled(1) and not inbox.cancelled(2) and not inbox.cancelled(1, superseded=False)
    inbox.put(DRAWN)
    inbox.put(Cancel(2))
    assert inbox.cancelled(2)
    assert [inbox.tasks.get() for _ in range(inbox.tasks.qsize())] == [Draw(1, 2.0), Draw(2, 3.0), DRAWN]


CHILD = """
import time
from checkmate.ipc.child import begin
from checkmate.ipc.messages import MessageTable
begin("test", MessageTable()).listen(print)
time.sleep(60)
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


def test_a_stream_is_read_to_its_end_and_closed() -> None:
    stream = io.BytesIO(TABLE.encode(DRAWN) + TABLE.encode(Draw(1, 0.5)))
    assert list(TABLE.read_all(stream)) == [DRAWN, Draw(1, 0.5)]
    assert stream.closed


def test_a_damaged_stream_raises_after_its_good_messages() -> None:
    stream = io.BytesIO(TABLE.encode(Draw(1, 0.5)) + encode_frame({"type": "unknown"}))
    found = TABLE.read_all(stream)
    assert next(found) == Draw(1, 0.5)
    with pytest.raises(MessageError, match="no message of type"):
        next(found)
    assert stream.closed
