"""Test that a step's buffers get chunks of their size in one region."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from checkmate.backends.tf import memory_check
from checkmate.backends.tf.emit.set_aside import SmallChunks, fetch_region
from checkmate.backends.tf.environment import METERED
from checkmate.ir import Device, Schedule
from tests.generated_graphs import training_chain
from tests.programs import run_python
from tests.quick_start import QUICK

SIZE = 20 << 20  # the allocator's region for it has 32 MiB: less than twice that, so it is not split


def held_for_a_large_buffer(*words: str) -> tuple[int, int]:
    """Return the bytes held for a large buffer, and those before it. The buffer has ``SIZE`` bytes."""
    done = run_python("-m", "tests.tf.emit.held_in_region", SIZE, *words, **METERED, **QUICK)
    held, before = done.stdout.split()[-2:]
    return int(held), int(before)


@pytest.mark.heavy
def test_a_buffer_takes_a_whole_region_without_it_and_its_own_size_with_it() -> None:
    wasteful, before = held_for_a_large_buffer()
    exact, beside = held_for_a_large_buffer("region")
    assert exact == SIZE and wasteful > 1.4 * SIZE
    assert beside == before, "the region was not given back"


@pytest.mark.parametrize("why", ["a GPU", "no device", "no room"])
def test_it_is_not_fetched_where_that_helps_nobody(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(tf.raw_ops, "Empty", lambda *, shape, **_: asked.extend(shape))
    graph = training_chain(4)
    device = {"a GPU": Device("GPU", "gpu", 0), "no device": None}.get(why, Device("CPU", "cpu", 0))
    monkeypatch.setattr(memory_check, "free_bytes", lambda kind: 0 if why == "no room" else 2**40)
    graph = dataclasses.replace(graph, device=device)
    fetch_region(graph, Schedule.plain(graph))
    assert not asked
    fetch_region(here := dataclasses.replace(graph, device=Device("CPU", "cpu", 0)), Schedule.plain(here))
    assert bool(asked) == (why != "no room")


@pytest.mark.parametrize(
    ("free", "most", "bytes_"),
    [
        (2**40, None, int(1.25 * 20) + 4),  # with room for one buffer more
        (2**40, 12, int(1.25 * 12) + 4),
        (16, None, 0),
        (16, 12, int(1.25 * 12)),  # there is no room for another buffer
    ],
)
def test_it_has_room_for_the_step_and_no_more_than_is_needed(
    free: int, most: int | None, bytes_: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(tf.raw_ops, "Empty", lambda *, shape, **_: asked.extend(shape))
    monkeypatch.setattr(memory_check, "free_bytes", lambda kind: free)
    graph = dataclasses.replace(training_chain(4), device=Device("CPU", "cpu", 0))
    fetch_region(graph, Schedule.plain(graph), most=most)
    assert asked == ([bytes_ // 4] if bytes_ else [])


def test_the_first_region_has_room_for_what_is_held_beside_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = dataclasses.replace(training_chain(4), device=Device("CPU", "cpu", 0), fixed_bytes=42)
    schedule = Schedule.plain(graph)
    monkeypatch.setattr(memory_check, "free_bytes", lambda kind: 2**40)
    size = 42 + memory_check.fitting_region(graph, schedule)
    assert memory_check.first_region(graph, schedule) == size > 42 + 25
    monkeypatch.setattr(memory_check, "limit_bytes", lambda: 2 * size)
    assert memory_check.first_region(graph, schedule) == size
    monkeypatch.setattr(memory_check, "limit_bytes", lambda: 2 * size - 1)
    assert memory_check.first_region(graph, schedule) == 42 + 25, "the allocator may fetch twice that"
    monkeypatch.setattr(memory_check, "limit_bytes", lambda: 67)
    assert memory_check.first_region(graph, schedule) == 0
    on_gpu = dataclasses.replace(graph, device=Device("GPU", "gpu", 0))
    assert memory_check.first_region(on_gpu, schedule) == 0


def test_an_export_fetches_its_region_before_its_variables_are_restored() -> None:
    """A SavedModel makes its resources before it restores anything."""
    structure: Any = SimpleNamespace(ops=(), kinds=())
    with tf.Graph().as_default() as graph:
        handle = SmallChunks(structure, region=4096).resource_handle
        (region,) = (op for op in graph.get_operations() if op.type == "Empty")
    assert handle.op.control_inputs == [region] and tf.get_static_value(region.inputs[0]).tolist() == [1024]
    with tf.Graph().as_default() as graph:
        assert not SmallChunks(structure).resource_handle.op.control_inputs
