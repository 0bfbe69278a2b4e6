"""What is in memory in a range of steps, value by value."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from app.presenters.axes import StepAxis
from app.presenters.view_tables import ViewTable
from app.presenters.wording import name_in_model, scope_of_all
from app.state.knowledge import ListedSchedule
from checkmate.ir import CostUnit, Graph
from checkmate.machine.cost_origin import cost_text
from checkmate.memory.suggestions import Suggestion
from checkmate.units import format_bytes, plural

NO_STEPS = "Select steps first: drag along the memory curve."


COLUMNS = ("Value", "Layer", "Bytes", "In memory", "Bytes × time", "Share", "Used here", "If recomputed")
NAME, LAYER, COST, PRICE = map(COLUMNS.index, ("Value", "Layer", "Bytes × time", "If recomputed"))
WORDS = (NAME, LAYER)  # columns of text; the others are figures


@dataclass(frozen=True)
class Cell:
    """``rank`` is what the cell is sorted by. ``tip`` is all of it where ``text`` is short."""

    text: str
    rank: float | str
    tip: str = ""


@dataclass(frozen=True)
class RangeRow:
    """A value that is in memory in some ``steps`` of a range.

    ``first``, ``last``: the steps in which it is live, also outside the range; ``last`` is the number of
    steps if it is kept to the end. ``byte_cost``: its bytes times the cost of ``steps``, in the graph's unit.
    ``share``: its part of all ``byte_cost``, 0 to 1. ``waits``: no step of the range reads or writes it."""

    value: int
    op: int
    name: str
    layer: str
    bytes: int
    first: int
    last: int
    steps: int
    byte_cost: float
    share: float
    waits: bool


def range_rows(shown: ListedSchedule, axis: StepAxis, chosen: tuple[int, int]) -> tuple[RangeRow, ...]:
    """A row for each value in memory between two steps, both included, by falling ``byte_cost``. A value that
    is made twice in the range has one row."""
    graph, timeline, (first, last) = shown.graph, shown.timeline, chosen
    inside = np.flatnonzero((timeline.buffer_born <= last) & (timeline.buffer_last >= first))
    begin = np.maximum(timeline.buffer_born[inside], first)
    end = np.minimum(timeline.buffer_last[inside], last) + 1
    costs = axis.costs if axis.costs[-1] > 0 else np.arange(len(axis.costs), dtype=np.float64)
    size = timeline.buffer_bytes[inside]
    weight = size * (costs[end] - costs[begin])
    whole, used = float(weight.sum()) or 1.0, _used(graph, shown, first, last)
    found: dict[int, RangeRow] = {}
    columns = (timeline.buffer_value, timeline.buffer_bytes, timeline.buffer_born, timeline.buffer_last)
    entries = zip(*(column[inside].tolist() for column in columns), strict=True)
    for (value, count, born, dead), steps, cost in zip(
        entries, (end - begin).tolist(), weight.tolist(), strict=True
    ):
        op, before = int(graph.producer[value]), found.get(value)
        if before is not None:
            born, dead = min(born, before.first), max(dead, before.last)
            steps, cost = steps + before.steps, cost + before.byte_cost
        name, layer = graph.values[value].name, graph.ops[op].group
        found[value] = RangeRow(
            value, op, name, layer, count, born, dead, steps, cost, cost / whole, value not in used
        )
    return tuple(sorted(found.values(), key=lambda row: (-row.byte_cost, -row.bytes, row.value)))


def _used(graph: Graph, shown: ListedSchedule, first: int, last: int) -> set[int]:
    ran = [graph.ops[op] for op in set(shown.schedule.steps[first : last + 1].tolist())]
    return {int(graph.owner[value]) for op in ran for value in (*op.inputs, *op.outputs)}


def summary(shown: ListedSchedule, chosen: tuple[int, int], rows: Iterable[RangeRow]) -> str:
    first, last = chosen
    live = shown.timeline.live_bytes[first : last + 1]
    at, listed = first + int(np.argmax(live)), list(rows)
    waiting = [row for row in listed if row.waits]
    idle = format_bytes(sum(row.bytes for row in waiting))
    return (
        f"Steps {first + 1:,} to {last + 1:,}: {plural(len(listed), 'value')}, at most "
        f"{format_bytes(int(live.max()))} live, in step {at + 1:,}. Held but not used in these steps: "
        + (f"{plural(len(waiting), 'value')}, {idle}." if waiting else "none.")
    )


def range_cells(
    shown: ListedSchedule, rows: Sequence[RangeRow], prices: Mapping[int, Suggestion], *, busy: bool
) -> list[tuple[Cell, ...]]:
    """A cell for each of ``COLUMNS`` and each row. Names are whole, without the scope of the model: the table
    cuts them to its columns. ``prices``: value → what computing it again after the range saves and costs.
    ``busy``: more may be found."""
    model = scope_of_all(shown.graph)
    return [_cells(shown, row, model, prices.get(row.value), busy) for row in rows]


def _cells(
    shown: ListedSchedule, row: RangeRow, model: str, price: Suggestion | None, busy: bool
) -> tuple[Cell, ...]:
    graph, count = shown.graph, len(shown.schedule.steps)
    end = "the end" if row.last >= count else f"{row.last + 1:,}"
    seconds = graph.cost_unit is CostUnit.SECONDS
    return (
        Cell(name_in_model(row.name, model), row.name, row.name),
        Cell(row.layer, row.layer, row.layer),
        Cell(format_bytes(row.bytes), float(row.bytes)),
        Cell(f"{row.first + 1:,} to {end}", row.first),
        Cell(f"{format_bytes(row.byte_cost)}·s" if seconds else "–", row.byte_cost),
        Cell(f"{100 * row.share:.1f} %", row.share),
        Cell("no" if row.waits else "yes", row.waits),
        _price_cell(graph, row, price, busy),
    )


def price_cells(
    shown: ListedSchedule, rows: Sequence[RangeRow], prices: Mapping[int, Suggestion], *, busy: bool
) -> list[Cell]:
    """The cells of the last column alone, as ``range_cells``."""
    return [_price_cell(shown.graph, row, prices.get(row.value), busy) for row in rows]


def _price_cell(graph: Graph, row: RangeRow, price: Suggestion | None, busy: bool) -> Cell:
    if price is None or price.cost is None:
        return Cell("…" if row.waits and busy else "–", math.inf)
    share = f" ({100 * price.cost / graph.base_cost:.2g} %)" if graph.base_cost > 0 else ""
    text = f"−{format_bytes(price.freed_bytes)}, +{cost_text(graph, price.cost)}{share}"
    return Cell(text, price.cost / max(1, price.freed_bytes))


def range_table(
    graph: Graph, rows: Iterable[RangeRow], prices: Mapping[int, Suggestion], count: int
) -> ViewTable:
    """``count`` is the number of the schedule's steps."""
    unit = graph.cost_unit.value
    heads = f"value; layer; bytes; first step; last step; steps in the range; bytes x {unit}; share"
    found = []
    for row in rows:
        steps = row.first + 1, min(row.last, count - 1) + 1, row.steps
        price = prices.get(row.value)
        again = (None, None) if price is None else (price.freed_bytes, price.cost)
        about = row.name, row.layer, row.bytes, *steps, row.byte_cost, row.share
        found.append((*about, not row.waits, *again))
    more = f"used in the range; saved if recomputed, bytes; cost of that, {unit}"
    return ViewTable.of(f"{heads}; {more}", found)
