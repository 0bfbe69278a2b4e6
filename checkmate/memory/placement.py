"""Where in memory each buffer of a schedule lies, by the replica of TensorFlow's allocator.

An op's outputs and its workspace are requested while its inputs are held; then every buffer that no later
step reads is freed. An output that is written over an input has the input's chunk. Buffers that are always
live were requested before the step. All of this is an estimate: TensorFlow runs some ops in parallel, its
kernels request small buffers that are in no graph, and parameters move when they are updated
(``tests/tf/allocator/test_placement.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.errors import ContentError
from checkmate.ir import Graph, Schedule, Timeline
from checkmate.memory.bfc import Bfc
from checkmate.memory.simulate import simulate

WORKSPACE, FIXED = -1, -2  # in place of a buffer's number
_CARD = 1 << 50  # bytes; so no step runs out of memory, and the picture shows what it would need
_RUNS = 2  # the first step fetches regions; a later one finds them there
_TOLD_EVERY = 64  # steps

_Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Placement:
    """The chunks of one step of training, after the first. Addresses count from zero through the regions.

    Per block, int64[k]: ``buffer``, its buffer in the timeline, or WORKSPACE or FIXED; ``address`` and
    ``chunk``, where its chunk begins and the chunk's bytes; ``asked``, the bytes requested of them; ``born``
    and ``last``, its first and last step. Per step, int64[steps]: ``allocated``, the bytes of all chunks;
    ``requested``, the bytes requested of them; ``free_chunks``, how many free chunks are below ``top``;
    ``largest_free``, the bytes of the largest. ``regions``: the address of each region. ``top``: the end of
    the highest region; on a card, the end of the step's highest chunk.
    """

    buffer: _Ints
    address: _Ints
    chunk: _Ints
    asked: _Ints
    born: _Ints
    last: _Ints
    allocated: _Ints
    requested: _Ints
    free_chunks: _Ints
    largest_free: _Ints
    regions: tuple[int, ...]
    top: int

    def free_bytes(self, step: int) -> int:
        return self.top - int(self.allocated[step])

    def to_bytes(self) -> bytes:
        sizes = [len(self.buffer), len(self.allocated), len(self.regions), self.top]
        arrays = [np.array(part, np.int64) for part in (sizes, *self._blocks, *self._steps, self.regions)]
        return np.concatenate(arrays).tobytes()

    @classmethod
    def from_bytes(cls, body: bytes) -> Placement:
        """Raise ContentError where the bytes are no placement."""
        numbers = np.frombuffer(body[: len(body) // 8 * 8], np.int64)
        blocks, steps, regions, top = numbers[:4].tolist() if len(numbers) >= 4 else (-1, 0, 0, 0)
        rest, split = numbers[4:], (6 * blocks, 6 * blocks + 4 * steps)
        whole = len(body) % 8 == 0 and len(rest) == split[1] + regions
        if not whole or min(blocks, steps, regions, top) < 0:
            raise ContentError(f"a placement of {len(body)} bytes cannot be read")
        of_blocks = rest[: split[0]].reshape(6, blocks)
        of_steps = rest[split[0] : split[1]].reshape(4, steps)
        parts: list[Any] = [*of_blocks, *of_steps, tuple(rest[split[1] :].tolist()), top]
        found = cls(*parts)
        if not found._is_possible(steps):
            raise ContentError("a placement has a block that is nowhere")
        return found

    def _is_possible(self, steps: int) -> bool:
        buffer, address, chunk, asked, born, last = self._blocks
        there = (buffer >= FIXED) & (born >= 0) & (born <= last + 1) & (last < steps)
        placed = (asked >= 0) & (address >= 0) & (chunk >= 0) & (address <= self.top - chunk)
        return bool((there & placed).all())

    @property
    def _blocks(self) -> tuple[_Ints, ...]:
        return self.buffer, self.address, self.chunk, self.asked, self.born, self.last

    @property
    def _steps(self) -> tuple[_Ints, ...]:
        return self.allocated, self.requested, self.free_chunks, self.largest_free


def place(
    graph: Graph,
    schedule: Schedule,
    timeline: Timeline,
    report: Callable[[float], None] = lambda _: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Placement | None:
    """``report`` is told the share done. None: cancelled."""
    device = graph.device_kind
    replay = _Replay(graph, schedule, timeline, Bfc(None if device == "cpu" else _CARD))
    replay.hold_fixed()
    replay.fetch(region_bytes(graph, schedule))
    steps = len(schedule.steps)
    for run in range(_RUNS):
        replay.begin()
        for step in range(steps):
            if step % _TOLD_EVERY == 0:
                if cancelled():
                    return None
                report((run + step / steps) / _RUNS)
            replay.run(step)
        replay.end()
    return replay.placement()


@dataclass(eq=False, slots=True)
class _Block:
    buffer: int
    handle: int
    address: int
    bytes: int
    asked: int
    born: int
    last: int


@dataclass(eq=False)
class _Replay:
    graph: Graph
    schedule: Schedule
    timeline: Timeline
    allocator: Bfc
    fixed: list[_Block] = field(default_factory=list)
    blocks: list[_Block] = field(default_factory=list)
    # Per step: (bytes in chunks, bytes requested, free chunks, the largest of them, a card's free end).
    told: list[tuple[int, int, int, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        timeline, steps = self.timeline, len(self.schedule.steps)
        self._born: list[list[int]] = [[] for _ in range(steps)]
        self._dying: list[list[int]] = [[] for _ in range(steps + 1)]
        for buffer, (born, last) in enumerate(
            zip(timeline.buffer_born.tolist(), timeline.buffer_last.tolist(), strict=True)
        ):
            self._born[born].append(buffer)
            self._dying[min(last, steps)].append(buffer)
        self._sizes = timeline.buffer_bytes.tolist()
        self._source = written_over(self.graph, self.schedule, timeline)
        self._of: dict[int, _Block] = {}
        self._handles = 0

    def hold_fixed(self) -> None:
        sizes = [size for size in self.graph.fixed.values() if size]
        rest = self.graph.fixed_bytes - sum(sizes)
        for size in [*sizes, rest] if rest > 0 else sizes:
            self.fixed.append(self._request(FIXED, size, 0, len(self.schedule.steps) - 1))

    def fetch(self, size: int) -> None:
        """Request memory for the whole step in one piece, and give it back."""
        self._handles += 1
        self.allocator.allocate(self._handles, size)
        self.allocator.release(self._handles)

    def begin(self) -> None:
        self.blocks, self.told, self._of = list(self.fixed), [], {}

    def run(self, step: int) -> None:
        last = len(self.schedule.steps) - 1
        for buffer in self._born[step]:
            old = self._of.pop(self._source.get(buffer, -1), None)
            if old is not None:
                old.last = step - 1
                self._add(_Block(buffer, old.handle, old.address, old.bytes, old.asked, step, last))
            elif self._sizes[buffer]:
                self._add(self._request(buffer, self._sizes[buffer], step, last))
        workspace = self.graph.ops[int(self.schedule.steps[step])].workspace_bytes
        scratch = self._request(WORKSPACE, workspace, step, step) if workspace else None
        self._record(step)
        self._release(self._dying[step], step)
        if scratch is not None:
            self.blocks.append(scratch)
            self.allocator.release(scratch.handle)

    def end(self) -> None:
        self._release(self._dying[-1], len(self.schedule.steps) - 1)

    def _release(self, buffers: list[int], step: int) -> None:
        for buffer in buffers:
            block = self._of.pop(buffer, None)
            if block is not None:
                block.last = step
                self.allocator.release(block.handle)

    def _request(self, buffer: int, size: int, born: int, last: int) -> _Block:
        self._handles += 1
        self.allocator.allocate(self._handles, size)
        address, chunk = self.allocator.where(self._handles)
        return _Block(buffer, self._handles, address, chunk, size, born, last)

    def _add(self, block: _Block) -> None:
        self._of[block.buffer] = block
        self.blocks.append(block)

    def _record(self, step: int) -> None:
        free, end = self.allocator.free_chunks(), 0
        if self.allocator.capacity is not None and free:
            _, end = free.pop()  # all that is left of a card is its largest chunk
        largest = free[-1][0] if free else 0
        requested = int(self.timeline.live_bytes[step])
        self.told.append((self.allocator.in_use, requested, len(free), largest, end))

    def placement(self) -> Placement:
        blocks = [
            (block.buffer, block.address, block.bytes, block.asked, block.born, block.last)
            for block in self.blocks
        ]
        buffer, address, size, asked, born, last = np.array(blocks, np.int64).reshape(-1, 6).T
        told = np.array(self.told, np.int64).reshape(-1, 5)
        allocated, requested, chunks, largest, free_end = told.T
        address, begins, end = _from_zero(address, self.allocator.regions)
        if self.allocator.capacity is not None and self.allocator.regions:
            end = int((address + size).max(initial=0))
            rest = np.maximum(0, end - (free_end - self.allocator.regions[0][0]))
            chunks, largest = chunks + (rest > 0), np.maximum(largest, rest)
        return Placement(
            buffer, address, size, asked, born, last, allocated, requested, chunks, largest, begins, end
        )


def _from_zero(address: _Ints, regions: list[tuple[int, int]]) -> tuple[_Ints, tuple[int, ...], int]:
    if not regions:
        return address, (), 0
    lengths = np.array([length for _, length in regions], np.int64)
    ends = np.cumsum(lengths)
    starts = np.array([start for start, _ in regions], np.int64)
    order = np.argsort(starts)
    of = order[np.searchsorted(starts[order], address, side="right") - 1]
    begins = ends - lengths
    return address - starts[of] + begins[of], tuple(begins.tolist()), int(ends[-1])


def written_over(graph: Graph, schedule: Schedule, timeline: Timeline) -> dict[int, int]:
    """Return for each buffer which one it is written over, if any (``checkmate.ir.timeline``)."""
    values, last = timeline.buffer_value.tolist(), timeline.buffer_last.tolist()
    sizes, found = timeline.buffer_bytes.tolist(), dict[int, int]()
    born_at = {pair: at for at, pair in enumerate(zip(values, timeline.buffer_born.tolist(), strict=True))}
    dies_at: dict[tuple[int, int], list[int]] = {}
    for at, pair in enumerate(zip(values, last, strict=True)):
        dies_at.setdefault(pair, []).append(at)
    for step in np.flatnonzero(timeline.taken_over).tolist():
        gone: set[int] = set()
        for output, read in graph.ops[int(schedule.steps[step])].takes_over:
            new = born_at.get((int(graph.owner[output]), step), -1)
            dying = dies_at.get((int(graph.owner[read]), step), [])
            old = next((at for at in dying if at not in gone and at != new), -1)
            if new >= 0 and old >= 0 and new not in found and sizes[old] == sizes[new]:
                found[new] = old
                gone.add(old)
    return found


_MORE = 1.25  # of what is requested: chunks are larger than requests, and some lie between others


def region_bytes(graph: Graph, schedule: Schedule, *, most: int | None = None, spare: bool = True) -> int:
    """Return the bytes of a region that has room for a whole step by ``schedule``; 0 except on a CPU.

    A CPU's allocator fetches regions as needed, and free chunks of different regions never merge; in one
    region they do. ``most``: an upper bound on the bytes that the step requests. ``spare``: add room for the
    largest buffer once more, so that no request takes the rest of the region whole. In a process of
    Checkmate's own the parameters' chunks lie in the region, too.
    """
    if graph.device is None or graph.device.kind != "cpu":
        return 0
    requested = simulate(graph, schedule).peak_bytes - graph.fixed_bytes
    requested = requested if most is None else min(requested, most)
    values = (graph.values[value].bytes for op in graph.ops for value in op.outputs)
    largest = max([*values, *(op.workspace_bytes for op in graph.ops)], default=0)
    return int(_MORE * requested) + (min(largest, requested) if spare else 0)
