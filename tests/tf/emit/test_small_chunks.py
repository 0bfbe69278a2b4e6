"""Test that small buffers have chunks of their own in the allocator."""

from __future__ import annotations

import gc
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
import tensorflow as tf

from checkmate.backends.tf.allocator.predict import CHUNK, small_chunk_requests, small_chunk_sizes
from checkmate.backends.tf.devices import held_bytes
from checkmate.backends.tf.emit.saved_model import save_step
from checkmate.backends.tf.emit.set_aside import SmallChunks
from checkmate.backends.tf.measure.concrete import compiled_step, run_step
from checkmate.backends.tf.profiler import MemoryEvent, trace_run
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.trace.op_kinds import LIGHT_BYTES
from checkmate.ir import Schedule
from checkmate.memory.bfc import Bfc
from tests.programs import run_python
from tests.quick_start import QUICK
from tests.tf.emit.served_chunks import given_back, rounded
from tests.tf.prepared import small


@pytest.fixture(
    scope="module",
    params=["convnet", *(pytest.param(name, marks=pytest.mark.heavy) for name in ("encoder", "two_heads"))],
)
def folded(request: pytest.FixtureRequest) -> FoldedStep:
    return small(request.param)


def most_at_once(events: Sequence[MemoryEvent]) -> Counter[int]:
    """Return the most buffers of each rounded size that were held at once."""
    held: Counter[int] = Counter()
    most: Counter[int] = Counter()
    sizes: dict[int, int] = {}
    for event in events:
        if event.requested_bytes > 0:
            size = sizes[event.address] = rounded(event.requested_bytes)
            held[size] += 1
            most[size] = max(most[size], held[size])
        elif event.address in sizes:
            held[sizes.pop(event.address)] -= 1
    return most


def test_sizes_are_those_of_the_allocator(folded: FoldedStep) -> None:
    sizes = small_chunk_sizes(folded.structure)
    assert list(sizes) == sorted(sizes) and {CHUNK, LIGHT_BYTES} <= set(sizes)
    assert all(0 < size <= LIGHT_BYTES and size % CHUNK == 0 for size in sizes)


def test_there_are_as_many_as_a_step_holds(folded: FoldedStep) -> None:
    schedule = Schedule.plain(folded.graph).steps.tolist()
    function, batch = compiled_step(folded, schedule), folded.traced.loaded.make_batch()

    def run() -> None:
        run_step(function, batch)[0].numpy()

    run()
    held = most_at_once(trace_run(run, device="cpu").memory)
    there = Counter(small_chunk_sizes(folded.structure))
    small_ones = {size: count for size, count in held.items() if size <= LIGHT_BYTES}
    assert small_ones[CHUNK] > 10  # the step has small buffers
    # A size that is not known before is served by the next power of two.
    assert not {
        size: count
        for size, count in small_ones.items()
        if max(there[size], there[1 << (size - 1).bit_length()]) < count
    }


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["convnet", "encoder", "two_heads"])
def test_small_buffers_find_them(name: str) -> None:
    # In a process of its own: here, chunks that other tests gave back would serve first.
    done = run_python("-m", "tests.tf.emit.served_chunks", name, **QUICK)
    told = json.loads(done.stdout.splitlines()[-1])
    assert not told["missing"]
    assert told["small"] >= 24
    assert not told["in_large"]
    assert told["in_made"] > 0.8 * told["small"]


def test_they_are_predicted(folded: FoldedStep) -> None:
    allocator = Bfc()
    allocator.play(small_chunk_requests(folded.structure))
    sizes = small_chunk_sizes(folded.structure)
    assert allocator.in_use == CHUNK * len(sizes)
    assert allocator.allocate(-1, CHUNK) == CHUNK and allocator.allocate(-2, LIGHT_BYTES - 1) == LIGHT_BYTES


def test_they_are_held_as_long_as_the_object(folded: FoldedStep) -> None:
    gc.collect()
    before = held_bytes("CPU:0")
    chunks = SmallChunks(folded.structure)
    chunks.make()
    kept = held_bytes("CPU:0") - before
    between = CHUNK * len(small_chunk_sizes(folded.structure))
    assert between <= kept <= between + 4096
    del chunks
    gc.collect()
    assert held_bytes("CPU:0") - before <= 4096


def test_a_saved_step_makes_them_when_it_is_loaded(folded: FoldedStep, tmp_path: Path) -> None:
    save_step(folded, Schedule.plain(folded.graph), tmp_path / "saved")
    loaded: list[object] = []
    events = trace_run(
        lambda: loaded.append(tf.saved_model.load(str(tmp_path / "saved"))), device="cpu"
    ).memory
    there, made = Counter(given_back(events).values()), most_at_once(events)
    for size, count in Counter(small_chunk_sizes(folded.structure)).items():
        assert made[size] >= count, size
        # In a process where nothing else ran, what is loaded may come to lie in one of them, and stay there.
        assert there[size] >= count - 1, size
