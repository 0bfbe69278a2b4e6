"""Say for each common card whether the step fits it, and at what cost.

It only reads a frontier: a schedule that is known, a bound that is proved. What is neither is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from checkmate.catalog.cards import Cards, CardSize
from checkmate.frontiers.summary import is_open
from checkmate.ir import Graph
from checkmate.machine.cost_origin import origin_words
from checkmate.solvers.known_frontier import BudgetAnswer, Frontier
from checkmate.text_table import aligned_lines
from checkmate.units import format_bytes, format_overhead

FORMAT, VERSION = "checkmate-cards", 1
HEAD = ("memory", "for the step", "", "peak", "cards")


class CardFit(Enum):
    KEEPS = "keeps-everything"
    FITS = "fits"
    TOO_SMALL = "does-not-fit"  # proved
    UNKNOWN = "unknown"  # no schedule is known, and none is ruled out


@dataclass(frozen=True)
class CardRow:
    """What is known of the step on a size of card. ``budget_bytes``: without the reserve."""

    size: CardSize
    budget_bytes: int
    fit: CardFit
    answer: BudgetAnswer

    @property
    def proved(self) -> bool:
        """Whether the cost is proved least, or that nothing fits."""
        return self.fit is CardFit.KEEPS or not is_open(self.answer)


def card_rows(frontier: Frontier, cards: Cards, plain_peak_bytes: int) -> tuple[CardRow, ...]:
    """A row for each size of card, by rising memory."""
    return tuple(_row(frontier, cards, size, plain_peak_bytes) for size in cards.sizes)


def _row(frontier: Frontier, cards: Cards, size: CardSize, plain_peak_bytes: int) -> CardRow:
    budget = cards.left_for_step(size.memory_bytes)
    answer = frontier.answer(budget)
    if budget >= plain_peak_bytes:
        fit = CardFit.KEEPS
    elif answer.point is not None:
        fit = CardFit.FITS
    else:
        fit = CardFit.TOO_SMALL if answer.infeasible else CardFit.UNKNOWN
    return CardRow(size, budget, fit, answer)


def label(row: CardRow, base_cost: float) -> str:
    """Say in a few words whether the step fits the card, and how sure that is."""
    point = row.answer.point
    if row.fit is CardFit.KEEPS:
        return "keeps everything"
    if row.fit is CardFit.TOO_SMALL:
        return "does not fit, proved"
    if row.fit is CardFit.UNKNOWN or point is None:
        return "not known: no schedule found"
    words = f"fits at {format_overhead(point.cost, base_cost)}"
    if row.proved:
        return f"{words}, proved least"
    if row.answer.lower_bound > 0:
        return f"{words}, at most {100 * (point.cost / row.answer.lower_bound - 1):.2g} % above the best"
    return words


def facts(row: CardRow, plain_peak_bytes: int, base_cost: float) -> dict[str, Any]:
    point = row.answer.point
    peak, cost = (None, None) if point is None else (point.peak_bytes, point.cost)
    if row.fit is CardFit.KEEPS:
        peak, cost = plain_peak_bytes, base_cost
    return {
        "memory_bytes": row.size.memory_bytes,
        "cards": list(row.size.cards),
        "budget_bytes": row.budget_bytes,
        "fit": row.fit.value,
        "peak_bytes": peak,
        "cost": cost,
        "overhead_percent": None if cost is None or base_cost <= 0 else 100 * (cost / base_cost - 1),
        "lower_bound": None if row.answer.infeasible else row.answer.lower_bound,
        "proved": row.proved,
    }


def table_facts(graph: Graph, plain_peak_bytes: int, cards: Cards, rows: Sequence[CardRow]) -> dict[str, Any]:
    """The whole of the format ``checkmate-cards``."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "graph": {"name": graph.name, "fingerprint": graph.fingerprint, "ops": graph.n},
        "batch_size": graph.batch_size,
        "cost_unit": graph.cost_unit.value,
        "cost_origin": graph.cost_origin.value,
        "base_cost": graph.base_cost,
        "keep_everything_peak_bytes": plain_peak_bytes,
        "reserve_bytes": cards.reserve_bytes,
        "rows": [facts(row, plain_peak_bytes, graph.base_cost) for row in rows],
    }


def cells(row: CardRow, plain_peak_bytes: int, base_cost: float) -> tuple[str, ...]:
    point = row.answer.point
    peak = plain_peak_bytes if row.fit is CardFit.KEEPS else None if point is None else point.peak_bytes
    return (
        format_bytes(row.size.memory_bytes),
        format_bytes(row.budget_bytes),
        label(row, base_cost),
        "-" if peak is None else format_bytes(peak),
        ", ".join(row.size.cards),
    )


def notes(graph: Graph, cards: Cards) -> tuple[str, ...]:
    return (
        f"Of each card, {format_bytes(cards.reserve_bytes)} are assumed to be taken by the driver, CUDA and "
        "TensorFlow.",
        f"Peaks are requested bytes (predicted). Costs are {origin_words(graph)}; on another card they may "
        "differ.",
    )


def text(graph: Graph, plain_peak_bytes: int, cards: Cards, rows: Sequence[CardRow]) -> str:
    """What ``checkmate cards`` prints."""
    batch = f", batch {graph.batch_size}" if graph.batch_size else ""
    table = [HEAD, *(cells(row, plain_peak_bytes, graph.base_cost) for row in rows)]
    return "\n".join(
        [
            f"{graph.name}: {graph.n} ops{batch}, keep-everything needs {format_bytes(plain_peak_bytes)}",
            *(f"  {line}" for line in aligned_lines(table, left=(2, 4))),
            *notes(graph, cards),
        ]
    )
