"""Predict the peak that the allocator's meter will show for a schedule in a fresh process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import tensorflow as tf

from checkmate.backends.tf.allocator.replay import Allocation, allocations, scratch_of_nodes
from checkmate.backends.tf.memory_check import first_region
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.trace.dataflow import Structure
from checkmate.backends.tf.trace.op_kinds import LIGHT_BYTES, OpKind
from checkmate.ir import Graph, Schedule
from checkmate.memory.bfc import Bfc, Request
from checkmate.memory.step_requests import InitialAllocations

_ALL_OF_A_GPU = 1 << 40  # the capacity assumed if a GPU's memory is not known
_SMALL_GPU, _LEFT_BY_SMALL, _LEFT = 2 << 30, 225 << 20, 1536 << 20  # see usable_bytes
_RUNS = 4  # steps to replay, as many as are measured: free chunks differ between the first and later steps

# Handles that no other request uses.
_REGION, _SHAPE, _FIRST_CHUNK = 1 << 62, (1 << 62) + 1, 1 << 61
_SHAPE_BYTES = 4  # the region is requested by an op whose shape input has this many bytes

CHUNK = 256  # what the allocator rounds sizes up to
_ALWAYS = 8  # chunks of each power of two, because the sizes of some small tensors are not known in advance
_SHARE = 4  # at most one in this many small buffers is live at once: assumed; 1 in 6 was measured


def predicted_allocated(
    folded: FoldedStep,
    graph: Graph,
    steps: Sequence[int],
    history: Sequence[tuple[int, int]],
    *,
    small_chunks: bool = True,
) -> int:
    """Predict the peak of the allocator's chunks in the first steps, in bytes. ``history``: the requests
    before the first step. ``small_chunks``: a region is fetched first, and chunks are set aside for small
    buffers, as for every step but the plain one. If the device's memory is known to be too small, the result
    is that memory plus the missing bytes."""
    before = before_steps(folded, graph, Schedule.of(graph, list(steps)), history, small_chunks=small_chunks)
    allocator = Bfc(before.capacity)
    allocator.play(before.requests)
    variables = _VariableBuffers(history)
    buffers, moments = _requests_in_order(folded, graph, steps, plain=not small_chunks)
    peak = 0
    for run in range(_RUNS):
        requests: list[Request] = []
        for _, released, number in moments:
            handle = run * len(buffers) + number
            if released and buffers[number].assigned_to:
                handle = variables.exchange(buffers[number], handle)
            requests.append(Request(handle, 0 if released else buffers[number].bytes))
        peak = max(peak, allocator.play(requests))
    return peak if not allocator.missing else max(peak, _memory(graph) + allocator.missing)


def before_steps(
    folded: FoldedStep,
    graph: Graph,
    schedule: Schedule,
    history: Sequence[tuple[int, int]],
    *,
    small_chunks: bool = True,
) -> InitialAllocations:
    requests: list[Request] = []
    if small_chunks and (region := first_region(graph, schedule)):
        # The small shape input is requested first, and gets a region of its own.
        requests = [Request(_SHAPE, _SHAPE_BYTES), Request(_REGION, region)]
        requests += [Request(_SHAPE, 0), Request(_REGION, 0)]
    requests += [Request(-1 - handle, size) for handle, size in history]
    if small_chunks:
        requests += small_chunk_requests(folded.structure)
    capacity = None
    if graph.device_kind != "cpu":
        capacity = usable_bytes(_memory(graph)) if _memory(graph) else _ALL_OF_A_GPU
    return InitialAllocations(tuple(requests), capacity, tuple(_VariableBuffers(history).unclaimed))


class _VariableBuffers:
    """Tracks the buffer of each variable. Its first one is an unclaimed buffer of the same size in the
    allocator's history."""

    def __init__(self, history: Sequence[tuple[int, int]]) -> None:
        held = {handle: size for handle, size in history if size}
        for handle, size in history:
            if not size:
                held.pop(handle, None)
        self.unclaimed = [(size, -1 - handle) for handle, size in held.items()]
        self._buffer: dict[str, int] = {}

    def exchange(self, buffer: Allocation, handle: int) -> int:
        old = self._buffer.get(buffer.assigned_to)
        self._buffer[buffer.assigned_to] = handle
        if old is not None:
            return old
        claimed = next((pair for pair in self.unclaimed if pair[0] == buffer.bytes), None)
        if claimed is None:  # the meter does not count this variable
            return -1 << 60
        self.unclaimed.remove(claimed)
        return claimed[1]


def usable_bytes(memory_bytes: int) -> int:
    """Return how much of an otherwise free GPU of ``memory_bytes`` TensorFlow's allocator takes. It leaves
    225 MiB if there are less than 2 GiB, else up to 1.5 GiB (``MinSystemMemory`` in gpu_device.cc)."""
    return max(0, memory_bytes - (_LEFT_BY_SMALL if memory_bytes < _SMALL_GPU else _LEFT))


def _memory(graph: Graph) -> int:
    return 0 if graph.device is None else graph.device.memory_bytes


def _requests_in_order(
    folded: FoldedStep, graph: Graph, steps: Sequence[int], *, plain: bool = False
) -> tuple[list[Allocation], list[tuple[int, bool, int]]]:
    buffers = [*allocations(folded, steps, graph, plain=plain), *scratch_of_nodes(folded, graph, steps)]
    moments = [(buffer.born, False, number) for number, buffer in enumerate(buffers)]
    moments += [(buffer.freed, True, number) for number, buffer in enumerate(buffers)]
    return buffers, sorted(moments)


def small_chunk_sizes(structure: Structure) -> tuple[int, ...]:
    """Return the bytes of each chunk to set aside for the step's small buffers, rising (``emit.set_aside``
    says why)."""
    found: Counter[int] = Counter()
    for op, kind in zip(structure.ops, structure.kinds, strict=True):
        for tensor in op.outputs if kind is OpKind.LIGHT else ():
            if tensor.dtype not in (tf.resource, tf.variant) and tensor.shape.is_fully_defined():
                found[-(-tensor.shape.num_elements() * tensor.dtype.size // CHUNK) * CHUNK] += 1
    counts = {size: _ALWAYS + count // _SHARE for size, count in found.items() if 0 < size <= LIGHT_BYTES}
    size = CHUNK
    while size <= LIGHT_BYTES:
        counts.setdefault(size, _ALWAYS)
        size *= 2
    return tuple(size for size in sorted(counts) for _ in range(counts[size]))


def small_chunk_requests(structure: Structure) -> Iterator[Request]:
    sizes = small_chunk_sizes(structure)
    for number, size in enumerate(sizes):
        yield Request(_FIRST_CHUNK + 2 * number, size)
        yield Request(_FIRST_CHUNK + 2 * number + 1, CHUNK)
    for number in range(len(sizes)):
        yield Request(_FIRST_CHUNK + 2 * number, 0)
