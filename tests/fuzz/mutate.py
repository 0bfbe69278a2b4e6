"""Change bytes and JSON at random, from a seed.

The changes are those that break readers: cuts, flips, huge numbers, odd texts, deep nesting, repetition.
"""

from __future__ import annotations

import copy
import gzip
import json
from random import Random
from typing import Any

_GZIP = b"\x1f\x8b"
_EDGES = (0, 1, 0x7F, 0x80, 0xFE, 0xFF)
_TOKENS = (
    b"NaN", b"Infinity", b"-1", b"1e999", b"9" * 400, b"null", b"true", b"{}", b"[]", b'"\\ud800"',
    b"\\u0000", b"[" * 3000, b'{"a":' * 3000, b'"' + b"x" * 5000 + b'"', b"\n", b"\0", b"\xef\xbb\xbf",
    b"\xff", b'""', b"-0.0", b"1E+400", b"\xe2\x80\xa8",
)  # fmt: skip


def _nested(depth: int) -> Any:
    found: Any = 0
    for level in range(depth):
        found = [found] if level % 2 else {"a": found}
    return found


def junk(random: Random) -> Any:
    plain: list[Any] = [
        None, True, False, 0, 1, -1, -0.0, 1.5, 1e300, 1e-320, 2**31, 2**53 + 1, 2**61, 2**62, 2**63, 10**30,
        10**400, "", "x", "0", "²", "٣", "9" * 5000, "x" * 3000, "a\nb", "\x00", "\ud800", "\u202e", "NaN",
        "nan", "1e999", "../../x", "<b>&\"'", [], [[]], [1, 2], [None], [True], ["a"], [{}], [[0, 0]],
        [[0, "a"]], [10**30], {}, {"a": 1}, {"": None},
    ]  # fmt: skip
    if random.random() < 0.1:
        return random.choice(
            [_nested(random.choice([20, 300])), [random.randrange(9)] * 3000, ["x" * 99] * 50]
        )
    return copy.deepcopy(random.choice(plain))


def json_changed(random: Random, data: Any) -> Any:
    """Return ``data`` with one to four things in it changed.

    They are removed, replaced, moved or repeated.
    """
    data = copy.deepcopy(data)
    for _ in range(random.choice([1, 1, 1, 2, 4])):
        if random.random() < 0.01 or not isinstance(data, (dict, list)):
            return junk(random)
        places: list[tuple[Any, Any]] = []
        _collect(data, places)
        if not places:
            return data
        place, key = random.choice(places)
        _change(random, place, key, places)
    return data


def _collect(data: Any, places: list[tuple[Any, Any]]) -> None:
    waiting = [data]
    while waiting:
        place = waiting.pop()
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        places += [(place, key) for key in keys]
        waiting += [place[key] for key in keys if isinstance(place[key], (dict, list))]


def _change(random: Random, place: Any, key: Any, places: list[tuple[Any, Any]]) -> None:
    kind = random.randrange(6)
    try:
        if kind == 0:
            del place[key]
        elif kind == 1 and isinstance(place, list):
            place[key:key] = [copy.deepcopy(place[key]) for _ in range(random.choice([1, 1, 40]))]
        elif kind == 2:
            other, its = random.choice(places)
            place[key] = copy.deepcopy(other[its])
        elif kind == 3 and isinstance(place[key], (int, float)) and not isinstance(place[key], bool):
            place[key] += random.choice([-1, 1, 0.5, 1e9])
        elif kind == 4 and isinstance(place, dict):
            place[str(junk(random))[:40]] = place.pop(key)
        else:
            place[key] = junk(random)
    except (LookupError, OverflowError):  # an earlier change took it away
        return


def bytes_changed(random: Random, data: bytes) -> bytes:
    """Return ``data`` with one to four changes of its bytes."""
    body = bytearray(data)
    for _ in range(random.choice([1, 1, 2, 4])):
        at = random.randrange(len(body) + 1)
        kind = random.randrange(7)
        if kind == 0:
            del body[at:]
        elif kind == 1 and at < len(body):
            body[at] ^= 1 << random.randrange(8)
        elif kind == 2 and at < len(body):
            body[at] = random.choice(_EDGES)
        elif kind == 3:
            del body[at : at + random.choice([1, 4, 64])]
        elif kind == 4:
            body[at:at] = random.choice(_TOKENS)
        elif kind == 5:
            start = random.randrange(len(body) + 1)
            body[at:at] = body[start : start + random.choice([1, 8, 200])]
        else:
            body[at : at + 4] = random.randbytes(4)
    return bytes(body)


def mutated(random: Random, sample: bytes) -> bytes:
    """Return a changed ``sample``: as JSON where it is JSON, else as bytes."""
    if random.random() < 0.35:
        return bytes_changed(random, sample)
    packed = sample.startswith(_GZIP)
    text = gzip.decompress(sample) if packed else sample
    lines = text.split(b"\n") if text.startswith(b"{") and text.count(b"\n{") else [text]
    at = random.randrange(len(lines))
    try:
        changed = json.dumps(json_changed(random, json.loads(lines[at]))).encode()
    except (ValueError, RecursionError):
        return bytes_changed(random, sample)
    lines[at] = changed
    body = b"\n".join(lines)
    return gzip.compress(body, 1) if packed else body
