"""Snapshots are read as PyTorch's own viewer replays them, and damaged ones are refused in a sentence."""

from __future__ import annotations

import pickle
import pickletools
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkmate.errors import FormatError
from checkmate.records.changes import changes
from checkmate.records.memory import Cause, MemoryRecord
from checkmate.records.read import read_record
from checkmate.records.torch_snapshot import BEFORE, NO_STACK
from checkmate.records.words import facts, headline, why

LIBRARY = {"filename": "/usr/lib/python3/site-packages/torch/nn/linear.py", "line": 125, "name": "forward"}
NATIVE = {"filename": "??", "line": 0, "name": "at::empty_cuda(long)"}
BACKWARD = {"filename": "??", "line": 0, "name": "torch::autograd::generated::MulBackward0::apply(x&&)"}


def user(line: int) -> dict[str, Any]:
    return {"filename": "/home/me/train.py", "line": line, "name": "step"}


STACKS: tuple[list[dict[str, Any]], ...] = (
    [NATIVE, LIBRARY, user(7), user(90)],
    [NATIVE, LIBRARY, user(8), user(90)],
    [NATIVE, BACKWARD],
    [],
)
NAMES = ("step (train.py:7)", "step (train.py:8)", "MulBackward0", NO_STACK)


def event(action: str, address: int, size: int, stack: int, time: int) -> dict[str, Any]:
    told = {"action": action, "addr": address, "size": size, "stream": 0, "frames": STACKS[stack]}
    return told | {"time_us": 1_700_000_000_000_000 + time, "pool_id": (0, 0)}


class Made:
    """A snapshot that is made as an allocator makes one: of blocks of 1 MiB in segments of eight."""

    def __init__(self, rng: random.Random, count: int, *, recorded: float = 1.0) -> None:
        self.live: dict[int, tuple[int, int]] = {}
        self.events: list[dict[str, Any]] = []
        self.slots = 0
        for number in range(count):
            self.step(rng, number, number >= count * (1 - recorded))

    def step(self, rng: random.Random, time: int, recorded: bool) -> None:
        told: list[dict[str, Any]] = []
        if self.live and rng.random() < 0.4:
            address = rng.choice(list(self.live))
            size, _ = self.live.pop(address)
            told += [event(each, address, size, 3, time) for each in ("free_requested", "free_completed")]
        else:
            free = [slot << 20 for slot in range(self.slots) if slot << 20 not in self.live]
            if not free:
                told.append(event("segment_alloc", self.slots << 20, 8 << 20, 3, time))
                free = [self.slots << 20]
                self.slots += 8
            stack, size = rng.randrange(len(STACKS)), rng.randrange(1, 1 << 20)
            address = rng.choice(free)
            self.live[address] = size, stack
            told.append(event("alloc", address, size, stack, time))
        self.events += told if recorded else []

    def snapshot(self) -> dict[str, Any]:
        blocks = []
        for slot in range(self.slots):
            size, stack = self.live.get(slot << 20, (0, 3))
            state = "active_allocated" if slot << 20 in self.live else "inactive"
            told = {"address": slot << 20, "size": 1 << 20, "requested_size": size, "state": state}
            blocks.append(told | {"frames": STACKS[stack]})
        segments = [
            {"device": 0, "address": at << 20, "total_size": 8 << 20, "blocks": blocks[at : at + 8]}
            for at in range(0, self.slots, 8)
        ]
        return {"segments": segments, "device_traces": [self.events], "allocator_settings": {"a": 1.5}}


def replayed(snapshot: dict[str, Any]) -> tuple[int, Counter[str]]:
    """Return the most bytes in use, and by whom, as ``process_alloc_data`` of PyTorch's viewer counts."""
    trace, alive, elements = snapshot["device_traces"][0], {}, []
    for at, each in enumerate(trace):
        name = NAMES[next(i for i, stack in enumerate(STACKS) if stack == each["frames"])]
        if each["action"] == "alloc":
            alive[each["addr"]] = len(elements)
            elements.append([at, len(trace), each["size"], name])
        elif each["action"] in ("free", "free_completed"):
            if each["addr"] in alive:
                elements[alive.pop(each["addr"])][1] = at
            else:
                elements.append([-1, at, each["size"], BEFORE])
    for segment in snapshot["segments"]:
        for block in segment["blocks"]:
            if block["state"] == "active_allocated" and block["address"] not in alive:
                name = NAMES[next(i for i, stack in enumerate(STACKS) if stack == block["frames"])]
                elements.append([-1, len(trace), block["requested_size"], name])
    most: tuple[int, Counter[str]] = (-1, Counter())
    for at in range(-1, len(trace)):
        live: Counter[str] = Counter()
        for start, end, size, name in elements:
            if start <= at < end:
                live[name] += size
        if live.total() > most[0]:
            most = live.total(), live
    return most


def written(path: Path, snapshot: object, protocol: int = 4) -> Path:
    path.write_bytes(pickle.dumps(snapshot, protocol))
    return path


def lines_of(record: MemoryRecord) -> Counter[str]:
    return Counter({row.name: row.bytes for row in record.by_layer})


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32), count=st.integers(1, 60), recorded=st.floats(0, 1), protocol=st.integers(2, 5)
)
def test_a_snapshot_is_replayed_as_by_the_viewer(
    tmp_path: Path, seed: int, count: int, recorded: float, protocol: int
) -> None:
    made = Made(random.Random(seed), count, recorded=recorded)
    snapshot = made.snapshot()
    *peaks, now = read_record(written(tmp_path / "s.pickle", snapshot, protocol)).records
    most, by_line = replayed(snapshot)
    if snapshot["device_traces"][0]:
        [peak] = peaks
        assert peak.in_use_bytes == most and lines_of(peak) == by_line
        assert max(bytes for _, bytes in peak.curve) <= most
    live = Counter[str]()
    for size, stack in made.live.values():
        live[NAMES[stack]] += size
    assert now.requested_bytes == live.total() and lines_of(now) == live
    assert now.pool_bytes == made.slots << 20 and now.in_use_bytes == len(made.live) << 20


def test_a_failed_request_tells_of_fragmentation(tmp_path: Path) -> None:
    made = Made(random.Random(1), 200)
    made.events.append({"action": "oom", "size": 3 << 20, "device_free": 0, "frames": [], "time_us": 0})
    failure, peak, now = read_record(written(tmp_path / "s.pickle", made.snapshot())).records
    assert "3.00 MiB could not be had in PyTorch's memory of GPU 0" in headline(failure)
    assert failure.cause is Cause.SPLIT and "expandable_segments" in why(failure)
    assert failure.limit_bytes == failure.pool_bytes == made.slots << 20
    assert headline(peak).startswith("At most ") and "when the snapshot was taken" in headline(now)
    assert dict(facts(now))["free"].endswith("of it split off")


def test_two_snapshots_are_compared(tmp_path: Path) -> None:
    rng = random.Random(4)
    before, after = (
        read_record(written(tmp_path / "s.pickle", Made(rng, count).snapshot())).records[-1]
        for count in (60, 90)
    )
    one, other = lines_of(before), lines_of(after)
    found = changes(before, after, by_size=False)
    assert {each.name: each.more for each in found} == {
        name: other[name] - one[name] for name in {*one, *other} if other[name] != one[name]
    }
    assert [abs(each.more) for each in found] == sorted((abs(each.more) for each in found), reverse=True)
    assert changes(before, before, by_size=True) == ()


def test_devices_have_records_of_their_own(tmp_path: Path) -> None:
    one, two = Made(random.Random(1), 20).snapshot(), Made(random.Random(2), 20).snapshot()
    two["segments"] = [{**each, "device": 1} for each in two["segments"]]
    both = {
        "segments": one["segments"] + two["segments"],
        "device_traces": [*one["device_traces"], *two["device_traces"]],
    }
    found = read_record(written(tmp_path / "s.pickle", both)).records
    alone = read_record(written(tmp_path / "s.pickle", one)).records
    assert found[:2] == alone and [each.allocator[-1] for each in found] == list("0011")


def test_other_values_and_layouts_do_not_matter(tmp_path: Path) -> None:
    snapshot = Made(random.Random(3), 50).snapshot()
    plain = read_record(written(tmp_path / "s.pickle", snapshot))
    copied = pickle.loads(pickle.dumps(snapshot))  # no string is shared any more
    for each in copied["device_traces"][0]:
        each |= {
            "category": "activation",
            "user_metadata": {"a": [1, 2.5, None, b"x", (1, 2, 3, 4)]},
            "big": 2**70,
        }
    assert read_record(written(tmp_path / "s.pickle", copied)).records == plain.records
    optimized = pickletools.optimize(pickle.dumps(snapshot))
    (tmp_path / "s.pickle").write_bytes(optimized)
    assert read_record(tmp_path / "s.pickle").records == plain.records


class Harmful:
    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("raise SystemExit('code of the file was run')",)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (Harmful(), "code would have to be run"),
        ({"segments": [Harmful()]}, "code would have to be run"),
        ([1, 2], "its parts are not those of a snapshot"),
        ({"a": 1}, "neither segments nor a history"),
        ({"segments": [[]], "device_traces": [[{"action": 3}]]}, "its parts are not those of a snapshot"),
        ({"segments": [], "device_traces": [{"action": "alloc"}]}, "its parts are not those of a snapshot"),
        ({"segments": [{"device": 2**40, "total_size": 1}]}, "a device that no machine has"),
        ({"segments": [], "device_traces": [[{"action": "alloc", "size": -5}]]}, "sizes that no memory has"),
        ({"segments": [], "device_traces": [[]]}, "a snapshot without memory in it"),
    ],
)
def test_what_is_no_snapshot_is_refused(tmp_path: Path, content: object, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        read_record(written(tmp_path / "s.pickle", content))


def test_damaged_snapshots_give_a_sentence_or_a_reading(tmp_path: Path) -> None:
    rng = random.Random(5)
    path, read = tmp_path / "s.pickle", 0
    whole = [pickle.dumps(Made(rng, 30).snapshot(), protocol) for protocol in (2, 3, 4, 5)]
    for _ in range(400):
        path.write_bytes(damaged(rng, rng.choice(whole)))
        try:
            reading = read_record(path)
        except FormatError:
            continue
        read += 1
        assert all(headline(record) and facts(record) for record in reading.records)
    assert 0 < read < 400


def damaged(rng: random.Random, whole: bytes) -> bytes:
    kind, at = rng.randrange(4), rng.randrange(2, len(whole))
    if kind == 0:
        return whole[:at]
    if kind == 1:
        return whole[:at] + rng.randbytes(rng.randrange(1, 9)) + whole[at:]
    if kind == 2:
        other = rng.randrange(2, len(whole))
        return whole[:at] + whole[other:]
    changed = bytearray(whole)
    for _ in range(rng.randrange(1, 4)):
        changed[rng.randrange(2, len(whole))] = rng.randrange(256)
    return bytes(changed)
