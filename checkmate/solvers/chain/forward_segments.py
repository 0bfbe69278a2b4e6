"""A training graph as a chain: segments of the forward pass, and the backward ops that belong to each.

Any position of the forward pass can be a cut; what passes it is the set of values that are read behind it. If
a network is one chain of layers or blocks, that is a single value. A block's input that a shortcut reads
passes every cut inside the block. A backward op belongs to the last segment at which all that it reads is
still live, so that values are freed as early as possible. Some values cannot be live in any one segment:
those that must run once, that are kept, or that are read far from where they are made. They are *held*:
retained from their first computation to their last read, whatever the plan.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from checkmate.ir import Graph, Phase

# A value of less than 1/_SMALL of all forward bytes counts as nothing: it is held if it passes many cuts.
_SMALL = 2000
_MANY = 4


@dataclass(frozen=True)
class Segment:
    """Forward ops, and the backward ops that run when the segment is reversed, in an execution order."""

    forward: tuple[int, ...]
    backward: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Chain:
    """A chain of L segments.

    ``across[s]``: forward values of segments up to ``s`` that later segments read, without ``held`` ones,
    which are always retained. ``made_in``: forward value → its segment. ``late``: value passed from one
    segment's backward ops to another's (gradients, and forward values that linger) → (segment where it is
    made, lowest segment that reads it; -1 if it is kept to the end).
    """

    segments: tuple[Segment, ...]
    across: tuple[frozenset[int], ...]
    held: frozenset[int]
    made_in: dict[int, int]
    late: dict[int, tuple[int, int]]


@dataclass(frozen=True)
class _Span:
    """Where a forward value is made, and read last by a forward op, in positions or in segments."""

    made: int
    last: int
    read_back: bool


def find_chain(graph: Graph, *, most: int = 100) -> Chain | None:
    """None if no backward pass reads a forward pass of two segments or more."""
    forward, backward = split(graph)
    spans = _spans(graph, forward)
    held = _always_held(graph, spans)
    if not any(span.read_back for span in spans.values()):
        return None
    starts = [0, *(cut + 1 for cut in _cuts(graph, len(forward), spans, held, most))]
    if len(starts) < 2:
        return None
    segment_of = {}
    for segment, (begin, end) in enumerate(pairwise([*starts, len(forward)])):
        segment_of.update(dict.fromkeys(range(begin, end), segment))
    passes = {
        value: _Span(segment_of[span.made], segment_of[span.last], span.read_back)
        for value, span in spans.items()
        if value not in held
    }
    rows, lingers = _backward_segments(graph, backward, passes, len(starts))
    return Chain(
        tuple(
            Segment(tuple(forward[begin:end]), tuple(row))
            for (begin, end), row in zip(pairwise([*starts, len(forward)]), rows, strict=True)
        ),
        tuple(
            frozenset(value for value, span in passes.items() if span.made <= cut < span.last)
            for cut in range(len(starts))
        ),
        frozenset(held),
        {value: segment_of[span.made] for value, span in spans.items()},
        {**_gradients(graph, rows), **{value: (passes[value].made, end) for value, end in lingers.items()}},
    )


def with_seeds(graph: Graph, chain: Chain, ops: Collection[int]) -> Chain:
    """The chain while all that ``ops`` made is retained: they need not run again."""
    seeds = {value for op in ops for value in graph.ops[op].outputs}
    return replace(
        chain,
        segments=tuple(
            replace(segment, forward=tuple(op for op in segment.forward if op not in ops))
            for segment in chain.segments
        ),
        across=tuple(values - seeds for values in chain.across),
        held=chain.held | seeds,
    )


def split(graph: Graph) -> tuple[list[int], list[int]]:
    """Return the forward ops (loss included), none of which reads a backward op's output, and all others."""
    sources = graph.predecessors.lists()
    back = [False] * graph.n
    for index, op in enumerate(graph.ops):
        back[index] = op.phase in (Phase.BACKWARD, Phase.UPDATE) or any(
            back[source] for source in sources[index]
        )
    return [i for i in range(graph.n) if not back[i]], [i for i in range(graph.n) if back[i]]


def buffer_bytes(graph: Graph, values: Iterable[int]) -> int:
    """The bytes of the distinct buffers of ``values``; those of fixed values count as 0."""
    owners = {int(graph.owner[value]) for value in values}
    return sum(graph.values[owner].bytes for owner in owners if graph.producer[owner] >= 0)


def _spans(graph: Graph, forward: Sequence[int]) -> dict[int, _Span]:
    position = {op: i for i, op in enumerate(forward)}
    readers = graph.value_readers.lists()
    spans = {}
    for op in forward:
        for value in graph.ops[op].outputs:
            ahead = [position[reader] for reader in readers[value] if reader in position]
            spans[value] = _Span(
                position[op], max(ahead, default=position[op]), len(ahead) < len(readers[value])
            )
    return spans


def _always_held(graph: Graph, spans: dict[int, _Span]) -> set[int]:
    total = buffer_bytes(graph, spans)
    held = set()
    for value, span in spans.items():
        read = span.read_back or span.last > span.made
        runs_once = read and not graph.recomputable[graph.producer[value]]
        small = span.last - span.made > _MANY and buffer_bytes(graph, [value]) * _SMALL < total
        if graph.keep[value] or runs_once or small:
            held.add(value)
    return held


def _cuts(graph: Graph, length: int, spans: dict[int, _Span], held: set[int], most: int) -> list[int]:
    passing: list[set[int]] = [set() for _ in range(length)]
    for value, span in spans.items():
        if value not in held:
            for position in range(span.made, span.last):
                passing[position].add(value)
    width = [buffer_bytes(graph, values) for values in passing]
    idle = [buffer_bytes(graph, [v for v in values if not spans[v].read_back]) for values in passing]

    def useful(cut: int) -> bool:
        # A value that only forward ops read would be retained at this cut for nothing. A cut beside it may
        # avoid that.
        beside = [other for other in (cut - 1, cut + 1) if 0 <= other < length - 1]
        return not any(width[other] <= width[cut] and idle[other] < idle[cut] for other in beside)

    cuts = [cut for cut in range(length - 1) if useful(cut)]
    if len(cuts) < most:
        return cuts
    stretches = [
        cuts[i * len(cuts) // (most - 1) : (i + 1) * len(cuts) // (most - 1)] for i in range(most - 1)
    ]
    return [min(stretch, key=lambda cut: (width[cut], -cut)) for stretch in stretches if stretch]


def _backward_segments(
    graph: Graph, backward: Sequence[int], spans: dict[int, _Span], count: int
) -> tuple[list[list[int]], dict[int, int]]:
    """Return the backward ops of each segment; and, per forward value that backward ops of lower segments
    read, the lowest of these, until which the value lingers. ``spans`` are extended to reads in higher
    segments."""
    sources = graph.predecessors.lists()
    segment_of: dict[int, int] = {}
    rows: list[list[int]] = [[] for _ in range(count)]
    lingers: dict[int, int] = {}
    for op in backward:
        latest = min(
            (segment_of[source] for source in sources[op] if source in segment_of), default=count - 1
        )
        reads = [value for value in graph.op_inputs[op].tolist() if value in spans]
        choices = {
            min([latest, *(spans[value].last for value in reads)]),
            min(latest, max((spans[value].made for value in reads), default=latest)),
        }
        at = min(choices, key=lambda at: (buffer_bytes(graph, _missing(spans, reads, at)), -at))
        for value in _missing(spans, reads, at):
            span = spans[value]
            if span.made > at:
                lingers[value] = min(at, lingers.get(value, at))
            else:
                spans[value] = _Span(span.made, at, span.read_back)
        segment_of[op] = at
        rows[at].append(op)
    return rows, lingers


def _missing(spans: dict[int, _Span], values: Iterable[int], at: int) -> list[int]:
    return [value for value in values if not spans[value].made <= at <= spans[value].last]


def _gradients(graph: Graph, rows: Sequence[Sequence[int]]) -> dict[int, tuple[int, int]]:
    segment_of = {op: segment for segment, row in enumerate(rows) for op in row}
    readers = graph.value_readers.lists()
    late = {}
    for op, made in segment_of.items():
        for value in graph.ops[op].outputs:
            last = min((segment_of[reader] for reader in readers[value]), default=made)
            late[value] = (made, -1 if graph.keep[value] else last)
    return late


_SHARES = (0.95, 0.7)  # the share of the forward cost that a set of seeds saves


def seed_sets(graph: Graph, chain: Chain) -> Iterator[frozenset[int]]:
    """Yield sets of forward ops, those of most cost per byte, each of a share of the forward cost."""
    ops = [op for segment in chain.segments for op in segment.forward]
    total = sum(graph.ops[op].cost for op in ops)
    worth = sorted((op for op in ops if _can_be(graph, chain, op)), key=lambda op: -_density(graph, op))
    found: set[frozenset[int]] = set()
    for share in _SHARES:
        chosen: list[int] = []
        spared = 0.0
        for op in worth:
            if spared >= share * total:
                break
            chosen.append(op)
            spared += graph.ops[op].cost
        seeds = frozenset(chosen)
        if seeds and len(seeds) < len(ops) and seeds not in found:
            found.add(seeds)
            yield seeds


def _can_be(graph: Graph, chain: Chain, op: int) -> bool:
    held = chain.held.issuperset(graph.ops[op].outputs)
    return bool(graph.recomputable[op]) and graph.ops[op].cost > 0 and not held


def _density(graph: Graph, op: int) -> float:
    return graph.ops[op].cost / max(1, buffer_bytes(graph, graph.ops[op].outputs))
