"""Test that small buffers have chunks of their own in the allocator."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
import tensorflow as tf

from checkmate.ir.schedule import Schedule
from checkmate.memory.bfc import Bfc
from checkmate.progress import never, silent
from checkmate.tf.allocator.small_chunks import CHUNK, small_chunk_requests, small_chunk_sizes
from checkmate.tf.costs import session
from checkmate.tf.devices import held_bytes
from checkmate.tf.emit.saved_model import save_step
from checkmate.tf.emit.small_chunks import SmallChunks
from checkmate.tf.measure.step import compiled_step, run_step
from checkmate.tf.profiler import MemoryEvent, trace_run
from checkmate.tf.trace.coarsen import FoldedStep
from checkmate.tf.trace.op_kinds import LIGHT_BYTES
from tests.tf.emit.test_step import request_for


@pytest.fixture(
    scope="module",
    params=["convnet", *(pytest.param(name, marks=pytest.mark.heavy) for name in ("encoder", "two_heads"))],
)
def folded(request: pytest.FixtureRequest) -> FoldedStep:
    return session.prepare(request_for(request.param), report=silent, cancelled=never)


def rounded(size: int) -> int:
    return -(-size // CHUNK) * CHUNK


def most_at_once(events: Sequence[MemoryEvent]) -> Counter[int]:
    """Return the most buffers of each rounded size that were held at the same time."""
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


def given_back(events: Sequence[MemoryEvent]) -> dict[int, int]:
    """Return the chunks that were requested and given back: rounded bytes by address."""
    open_, freed = {}, {}
    for event in events:
        if event.requested_bytes > 0:
            open_[event.address] = rounded(event.requested_bytes)
        elif event.address in open_:
            freed[event.address] = open_.pop(event.address)
    return {address: size for address, size in freed.items() if address not in open_}


def test_sizes_are_those_of_the_allocator(folded: FoldedStep) -> None:
    sizes = small_chunk_sizes(folded.structure)
    assert list(sizes) == sorted(sizes) and {CHUNK, LIGHT_BYTES} <= set(sizes)
    assert all(0 < size <= LIGHT_BYTES and size % CHUNK == 0 for size in sizes)


def test_there_are_as_many_as_a_step_holds(folded: FoldedStep) -> None:
    schedule = Schedule.plain(folded.graph).steps.tolist()
    function, batch = compiled_step(folded, schedule), session.flat_batch(folded.traced.loaded)

    def run() -> None:
        run_step(function, batch)[0].numpy()

    run()
    held = most_at_once(trace_run(run, device="cpu").memory)
    there = Counter(small_chunk_sizes(folded.structure))
    small = {size: count for size, count in held.items() if size <= LIGHT_BYTES}
    assert small[CHUNK] > 10  # the step has small buffers
    # A size that is not known before is served by the next power of two.
    assert not {
        size: count
        for size, count in small.items()
        if max(there[size], there[1 << (size - 1).bit_length()]) < count
    }


def test_small_buffers_find_them(folded: FoldedStep) -> None:
    # What other tests left free in this process would serve first, so it is taken.
    left = [tf.zeros([CHUNK * number], tf.uint8) for number in (1, 2, 4) for _ in range(200)]
    chunks = SmallChunks(folded.structure)
    made = given_back(trace_run(chunks.make, device="cpu").memory)
    there = Counter(made.values())
    assert all(there[size] >= count for size, count in Counter(small_chunk_sizes(folded.structure)).items())
    held: list[tf.Tensor] = []
    large = 1 << 24

    def hold() -> None:
        tf.zeros([large], tf.uint8)  # leaves a large free chunk
        held.extend(tf.zeros([CHUNK * number], tf.uint8) for number in (1, 2, 4) for _ in range(8))

    events = trace_run(hold, device="cpu").memory
    (freed,) = {event.address for event in events if event.requested_bytes == large}
    small = [event.address for event in events if event.requested_bytes in (CHUNK, 2 * CHUNK, 4 * CHUNK)]
    assert len(small) >= len(held)
    assert not [address for address in small if freed <= address < freed + large]
    assert len([address for address in small if address in made]) > 0.8 * len(small)
    del left


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
    there = Counter(given_back(events).values())
    wanted = Counter(small_chunk_sizes(folded.structure))
    assert not {size: (count, there[size]) for size, count in wanted.items() if there[size] < count}
