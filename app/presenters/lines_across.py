"""Lines across the memory curve: peaks, bound, a card's memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.state.knowledge import ListedSchedule
from checkmate.catalog.cards import Cards
from checkmate.ir import Graph
from checkmate.ir.result import MeasuredSchedule
from checkmate.memory.placement import Placement
from checkmate.units import format_bytes

DEVICE, NO_CARD = "device", "none"  # choices of a card that are no size
FAR = 1.6  # times the curve's scale; a line above that would squeeze the curve
_SAME = 2.0  # pixels
_ABOVE = 1.06  # of a line: where the scale ends

Box = tuple[float, float, float, float]  # left, top, right and bottom, in pixels


class LineKind(StrEnum):
    REQUESTED = "requested"
    ALLOCATED = "allocated"
    BOUND = "bound"
    CAPACITY = "capacity"


@dataclass(frozen=True)
class Capacity:
    name: str
    memory_bytes: int
    step_bytes: int


@dataclass(frozen=True)
class MemoryLine:
    """``words`` stand at the plot's edge, ``brief`` where that is narrow; ``tip`` says it all."""

    kind: LineKind
    bytes: int
    words: str
    brief: str
    tip: str


@dataclass(frozen=True)
class CardEntry:
    """A card that can be chosen; ``key`` is what is remembered of it."""

    key: str
    words: str


def card_entries(graph: Graph | None, cards: Cards) -> tuple[CardEntry, ...]:
    """The choices: none, the graph's own GPU, common cards by size."""
    own = capacity_of(DEVICE, graph, cards)
    device = () if own is None else (CardEntry(DEVICE, f"This device: {own.name}"),)
    sizes = (
        CardEntry(str(size.memory_bytes), f"{_gib(size.memory_bytes)}: {', '.join(size.cards)}")
        for size in cards.sizes
    )
    return (CardEntry(NO_CARD, "No card"), *device, *sizes)


def capacity_of(choice: str, graph: Graph | None, cards: Cards) -> Capacity | None:
    """None: no card is chosen, or its memory is not known."""
    if choice == DEVICE:
        device = None if graph is None else graph.device
        if device is None or device.kind != "gpu" or not device.memory_bytes:
            return None
        memory, name = device.memory_bytes, f"{device.name}, {format_bytes(device.memory_bytes)}"
    else:
        memory = next((size.memory_bytes for size in cards.sizes if str(size.memory_bytes) == choice), 0)
        name = f"{_gib(memory)} card"
    return Capacity(name, memory, cards.left_for_step(memory)) if memory else None


def memory_lines(
    wanted: Collection[LineKind],
    shown: ListedSchedule,
    *,
    bound_bytes: int = 0,
    placement: Placement | None = None,
    measured: MeasuredSchedule | None = None,
    capacity: Capacity | None = None,
) -> tuple[MemoryLine, ...]:
    """The lines that are wanted and known. ``bound_bytes`` is 0 where no bound is known. ``placement`` and
    ``measured`` are of the schedule on screen."""
    made = _requested(shown), _allocated(placement, measured), _bound(bound_bytes, shown), _capacity(capacity)
    return tuple(line for line in made if line is not None and line.kind in wanted)


def _requested(shown: ListedSchedule) -> MemoryLine:
    size = format_bytes(shown.peak_bytes)
    tip = f"Requested peak {size}, predicted: the most bytes that tensors and workspaces take at once"
    words = f"requested {size}"
    return MemoryLine(LineKind.REQUESTED, shown.peak_bytes, f"{words}, predicted", words, tip)


def _allocated(placement: Placement | None, measured: MeasuredSchedule | None) -> MemoryLine | None:
    if measured is not None:
        peak, how, sign = measured.peak_bytes, "measured", ""
        tip = "what the allocator's meter showed when it was exported"
    elif placement is not None:
        peak, how, sign = int(placement.allocated.max(initial=0)), "estimated", "≈ "
        tip = "the most bytes in chunks, by the allocator's replica"
    else:
        return None
    size = format_bytes(peak)
    said, brief = f"Allocated peak {size}, {how}: {tip}", f"allocated {sign}{size}"
    return MemoryLine(LineKind.ALLOCATED, peak, f"{brief}, {how}", brief, said)


def _bound(bound_bytes: int, shown: ListedSchedule) -> MemoryLine | None:
    if bound_bytes <= shown.graph.fixed_bytes:
        return None
    size = format_bytes(bound_bytes)
    tip = f"Least possible {size}, proved: no schedule has a smaller peak, at any cost"
    words = f"least possible {size}"
    return MemoryLine(LineKind.BOUND, bound_bytes, f"{words}, proved", f"≥ {size}, proved", tip)


def _capacity(capacity: Capacity | None) -> MemoryLine | None:
    if capacity is None:
        return None
    step = format_bytes(capacity.step_bytes)
    taken = format_bytes(capacity.memory_bytes - capacity.step_bytes)
    others = "the driver, CUDA and TensorFlow"
    tip = f"{capacity.name}: {step} for a step; {taken} are assumed to be taken by {others}"
    name = capacity.name.rsplit(", ", 1)[-1]
    name = name if name.endswith("card") else f"{name} device"
    brief = f"{name}: {step}"
    return MemoryLine(LineKind.CAPACITY, capacity.step_bytes, f"{brief} for a step", brief, tip)


def top_with(lines: Sequence[MemoryLine], top_bytes: float) -> float:
    """The top of a scale that shows the lines near above it."""
    near = (_ABOVE * line.bytes for line in lines if line.bytes <= FAR * top_bytes)
    return max(top_bytes, *near, 0.0)


def sharing(heights: Sequence[float]) -> list[tuple[int, int]]:
    """For each line (place, count) among the lines at the same height. Heights are in pixels, sorted; lines
    closer than a line's width count as the same height."""
    groups: list[list[float]] = []
    for height in heights:
        if groups and abs(height - groups[-1][-1]) < _SAME:
            groups[-1].append(height)
        else:
            groups.append([height])
    return [(place, len(group)) for group in groups for place in range(len(group))]


def spread(wanted: Sequence[Box], taken: Sequence[Box], low: float, high: float) -> list[float]:
    """The tops of boxes, moved so that they overlap neither each other nor the ``taken`` ones. Each stays
    within ``low`` and ``high``, as near as possible to where it is ``wanted`` and below the box before it; if
    there is no room below, it goes above, and if there is none at all, it does not move."""
    placed: list[Box] = list(taken)
    tops: list[float] = []
    after = low
    for left, top, right, bottom in wanted:
        height = bottom - top
        beside = [box for box in placed if box[0] < right and left < box[2]]
        tries = [top, low, after, high - height]
        tries += [edge for box in beside for edge in (box[1] - height, box[3])]
        free = [one for one in tries if _fits(one, height, beside, low, high)]
        in_order = [one for one in free if one >= after]
        best = min(in_order or free, key=lambda one: abs(one - top), default=top)
        tops.append(best)
        placed.append((left, best, right, best + height))
        after = best + height
    return tops


def _fits(top: float, height: float, beside: Sequence[Box], low: float, high: float) -> bool:
    inside = low <= top and top + height <= high
    return inside and all(top + height <= box[1] or box[3] <= top for box in beside)


def _gib(size: int) -> str:
    return f"{size / 2**30:g} GiB"
