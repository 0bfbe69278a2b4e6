"""Test every message of every table. It survives its way, and has a sender and a receiver."""

from __future__ import annotations

import ast
import json
import struct
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkmate.processes.messages import (
    EVERYWHERE,
    CarriesSteps,
    Message,
    MessageError,
    MessageTable,
    encode_frame,
    pack_steps,
    unpack_steps,
)
from checkmate.solvers.engine import ENGINE_MESSAGES
from checkmate.solvers.pathcut.in_process import PROVER_MESSAGES
from checkmate.workers.window_messages import WINDOW_MESSAGES, SolveEnded

ROOT = Path(__file__).resolve().parents[3]
TABLES = {
    "window": WINDOW_MESSAGES,
    "prover": PROVER_MESSAGES,
    "engine": ENGINE_MESSAGES,
}
EVERY = [
    pytest.param(table, kind, id=f"{name}-{kind.__name__}")
    for name, table in TABLES.items()
    for kind in table.classes
]
WITH_STEPS = [entry for entry in EVERY if issubclass(entry.values[1], CarriesSteps)]  # type: ignore[arg-type]
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=8),
    int: st.integers(-(2**62), 2**62),
    float: st.floats(allow_nan=False),
    bool: st.booleans(),
    bytes: st.binary(max_size=16),
    Path: st.sampled_from([Path("out"), Path("/tmp/ä b")]),
}


def some(hint: Any) -> st.SearchStrategy[Any]:
    """Values of an annotated type; types are told apart here again, not by the code under test."""
    arguments = get_args(hint)
    if hint in PLAIN:
        return PLAIN[hint]
    if get_origin(hint) is Mapping:
        return st.dictionaries(
            st.text(max_size=4), st.none() | st.integers(0, 9) | st.lists(st.floats(0, 1), max_size=2)
        )
    if get_origin(hint) is tuple and arguments[-1] is ...:
        return st.lists(some(arguments[0]), max_size=3).map(tuple)
    if get_origin(hint) is tuple:
        return st.tuples(*map(some, arguments))
    if arguments:
        return st.one_of(*(st.none() if one is type(None) else some(one) for one in arguments))
    if issubclass(hint, Enum):
        return st.sampled_from(list(hint))
    assert is_dataclass(hint)
    hints = get_type_hints(hint)
    given = {field.name: some(hints[field.name]) for field in fields(hint)}
    if issubclass(hint, CarriesSteps):
        given["steps"] = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=9).map(pack_steps)
    return st.builds(hint, **given)


@pytest.mark.parametrize(("table", "kind"), EVERY)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_every_message_comes_out_as_it_went_in(
    table: MessageTable, kind: type[Message], data: st.DataObject
) -> None:
    message = data.draw(some(kind))
    assert list(table.reader().feed(table.encode(message))) == [message]


@pytest.mark.parametrize(("table", "kind"), EVERY)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_a_message_with_a_wrong_field_is_refused(
    table: MessageTable, kind: type[Message], data: st.DataObject
) -> None:
    header, body = taken_apart(table.encode(data.draw(some(kind))))
    field = data.draw(st.sampled_from(sorted(header)))
    wrong = [dict(header), {**header, field: {"odd": [object]}}]
    del wrong[0][field]
    if get_origin(get_type_hints(kind).get(field)) is Mapping:
        wrong[1][field] = 7  # any object is right there
    for changed in wrong:
        with pytest.raises(MessageError):
            list(table.reader().feed(encode_frame(changed, body)))


def taken_apart(frame: bytes) -> tuple[dict[str, Any], bytes]:
    size = struct.unpack_from("<I", frame)[0]
    return json.loads(frame[16 : 16 + size]), frame[16 + size :]


def test_no_field_is_called_type() -> None:
    assert not any("type" in get_type_hints(entry.values[1]) for entry in EVERY)


def test_schedules_are_raw_bytes_of_four_an_op() -> None:
    steps = np.random.default_rng(1).permutation(10_000)
    body = pack_steps(steps)
    assert (
        len(body) == 40_000
        and unpack_steps(body).tolist() == steps.tolist() == unpack_steps(pack_steps(steps.tolist())).tolist()
    )
    ended = SolveEnded(1, "optimal", "auto", 2**40, 1.0, 0.1, (), "", {}, body)  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="'str' object has no attribute 'value'"):
        WINDOW_MESSAGES.encode(ended)  # its status is a text, not a status


@given(st.binary(max_size=50))
def test_bytes_that_are_no_whole_steps_are_refused(body: bytes) -> None:
    if len(body) % 4 == 0:
        assert pack_steps(unpack_steps(body)) == body
        return
    with pytest.raises(MessageError, match="no whole number of steps"):
        unpack_steps(body)


@pytest.mark.parametrize(("table", "kind"), WITH_STEPS)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_a_message_with_half_a_step_is_refused(
    table: MessageTable, kind: type[Message], data: st.DataObject
) -> None:
    header, body = taken_apart(table.encode(data.draw(some(kind))))
    with pytest.raises(MessageError):
        list(table.reader().feed(encode_frame(header, body + data.draw(st.binary(min_size=1, max_size=3)))))


def test_every_message_with_steps_is_looked_at() -> None:
    with_steps = [
        kind for table in TABLES.values() for kind in table.classes if "steps" in get_type_hints(kind)
    ]
    assert len(with_steps) == len(WITH_STEPS) >= 9


def named_in(node: ast.AST) -> set[str]:
    return {found.id for found in ast.walk(node) if isinstance(found, ast.Name)}


@cache
def senders_and_receivers() -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Who calls each name, and who tells it apart by ``match`` or ``isinstance``."""
    sent, received = defaultdict(set), defaultdict(set)
    for path in [*(ROOT / "checkmate").rglob("*.py"), *(ROOT / "app").rglob("*.py")]:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.MatchClass):
                told = named_in(node.cls)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                sent[node.func.id].add(module)
                told = named_in(node.args[1]) if node.func.id == "isinstance" and node.args[1:] else set()
            else:
                continue
            for name in told:
                received[name].add(module)
    return sent, received


def test_every_message_has_a_sender_and_a_receiver_in_another_process() -> None:
    sent, received = senders_and_receivers()
    for name in ("window", "prover"):  # both ends of an engine are in one module
        for kind in TABLES[name].classes[len(EVERYWHERE) :]:
            makers, readers = sent[kind.__name__], received[kind.__name__]
            assert makers, f"nobody sends {kind.__name__}"
            assert readers - makers, f"nobody but its sender receives {kind.__name__}"


def test_every_message_of_the_window_goes_between_the_window_and_a_worker() -> None:
    sent, received = senders_and_receivers()
    for kind in WINDOW_MESSAGES.classes[len(EVERYWHERE) :]:
        ends = (sent[kind.__name__], received[kind.__name__])
        windows = [any(module.startswith("app.") for module in end) for end in ends]
        workers = [any(module.startswith("checkmate.workers.") for module in end) for end in ends]
        assert windows != workers and windows[0] is not windows[1], f"{kind.__name__}: {ends}"


def test_the_messages_load_nothing_heavy() -> None:
    loaded = "print(*{name.partition('.')[0] for name in sys.modules})"
    code = f"import checkmate.workers.window_messages, sys; {loaded}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    heavy = {"PySide6", "tensorflow", "keras", "highspy", "ortools", "pulp", "numba", "scipy", "PIL"}
    assert not heavy & set(done.stdout.split())
