"""How far a budget reaches over batches and input sizes, and the search for the largest batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.presenters.commands import profiled_from
from app.presenters.lines_across import NO_CARD, capacity_of, card_entries
from app.presenters.range_rows import Cell
from checkmate.catalog.cards import Cards
from checkmate.ir import Graph
from checkmate.request import ModelRequest
from checkmate.units import format_bytes

COLUMNS = ("Budget", "Cost allowed", "Largest batch", "Extra cost", "Peak", "Status")
WORDS = (1, 5)  # columns of text; the others are figures
STATUS = COLUMNS.index("Status")
ONE_FORWARD, AT_ANY_COST = None, math.inf
COSTS: tuple[tuple[str, float | None], ...] = (
    ("One more forward pass", ONE_FORWARD),
    ("None", 0.0),
    ("5 %", 0.05),
    ("10 %", 0.1),
    ("20 %", 0.2),
    ("Any", AT_ANY_COST),
)


@dataclass(frozen=True, eq=False)
class BatchQuestion:
    graph: Graph
    budget_bytes: int
    max_overhead: float | None
    seconds: float

    @property
    def request(self) -> ModelRequest | None:
        return profiled_from(self.graph)


@dataclass(frozen=True, eq=False)
class BatchAnswer:
    """What a search found. ``batch`` is 0 where it found none; then ``problem`` says why, and ``proved_none``
    whether there is none."""

    question: BatchQuestion
    batch: int = 0
    peak_bytes: int = 0
    upper_batch: int = 0
    plain_batch: int = 0
    baselines: Mapping[str, int] | None = None
    choices: tuple[tuple[int, float], ...] = ()
    cancelled: bool = False
    note: str = ""
    problem: str = ""
    proved_none: bool = False
    graph_and_schedule: bytes = b""

    @property
    def overhead(self) -> float:
        """The extra cost at that batch, as a fraction."""
        return self.choices[-1][1] if self.choices else 0.0

    @property
    def status(self) -> str:
        if not self.batch:
            return "not even one example fits, proved" if self.proved_none else "none was found"
        if self.batch >= self.upper_batch:
            return "largest, proved"
        stopped = "stopped; " if self.cancelled else ""
        return f"{stopped}none above {self.upper_batch:,}, proved"


def budget_entries(budget_bytes: int, graph: Graph | None, cards: Cards) -> list[tuple[str, int]]:
    """The budgets to choose from: the present one, and each card's."""
    found = [(f"The budget, {format_bytes(budget_bytes)}", budget_bytes)]
    for entry in card_entries(graph, cards):
        card = capacity_of(entry.key, graph, cards)
        if entry.key != NO_CARD and card is not None:
            found.append((f"{card.name}, {format_bytes(card.step_bytes)} for a step", card.step_bytes))
    return found


def cost_words(max_overhead: float | None) -> str:
    return next((words for words, cost in COSTS if cost == max_overhead), f"{max_overhead}").lower()


def answer_cells(answers: Sequence[BatchAnswer]) -> list[tuple[Cell, ...]]:
    return [_cells(answer) for answer in answers]


def _cells(answer: BatchAnswer) -> tuple[Cell, ...]:
    found, budget, cost = answer.batch > 0, answer.question.budget_bytes, answer.question.max_overhead
    return (
        Cell(format_bytes(budget), budget),
        Cell(cost_words(cost), cost_words(cost)),
        Cell(f"{answer.batch:,}" if found else "–", answer.batch),
        Cell(f"+{100 * answer.overhead:.1f} %" if found else "–", answer.overhead),
        Cell(format_bytes(answer.peak_bytes) if found else "–", answer.peak_bytes),
        Cell(answer.status, answer.status, answer.problem),
    )


def details(answer: BatchAnswer) -> str:
    """What other methods reach within the same budget, and which tensors are assumed to grow."""
    if not answer.batch:
        return answer.problem
    plain = f"{answer.plain_batch:,}" if answer.plain_batch else "no batch"
    others = [f"{name}: {batch:,}" for name, batch in (answer.baselines or {}).items()]
    said = "; ".join([f"Keep everything: {plain}", *others])
    note = answer.note[:1].upper() + answer.note[1:]
    return f"{said}. {note}."


def stairs(answer: BatchAnswer) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The corners of the least extra cost, in percent, found for each batch."""
    batches = np.array([0, *(batch for batch, _ in answer.choices)], np.float64)
    costs = np.array([100 * cost for _, cost in answer.choices], np.float64)
    return np.repeat(batches, 2)[1:-1], np.repeat(costs, 2)


TIP = (
    "Estimated: sizes and costs are scaled from batch {base}, and only schedules that are known count. "
    "Largest batch… searches, and proves."
)


INPUT_TIP = (
    "Estimated from traces at {traced}: exact there, and on a parabola elsewhere. Only schedules that are "
    "known count. The size that you choose is traced, too; its costs are operation counts."
)
OFFER = "Trace the model at two further sizes, in the background. Nothing is measured."


def coming_words(size: str, plain_bytes: int) -> str:
    """What an unexplored batch or input size needs where everything is kept."""
    return f"{size[:1].upper()}{size[1:]}: {format_bytes(plain_bytes)} all kept, estimated"


def reach_words(level: int, kept: int, fits: int, words: Callable[[int], str] | None = None) -> str:
    """Up to which size the budget keeps everything, and fits at all. ``words`` names an input size; None:
    levels are batches."""
    name = words or "batch {:,}".format
    if not fits:
        return f"No {'input size' if words else 'batch'} is known to fit this budget"
    if level > fits:
        return f"This budget fits only up to {name(fits)}"
    if kept in (0, fits):
        return f"This budget fits up to {name(fits)}"
    if words is None:
        return f"Fits up to {name(fits)}; all kept up to {kept:,}"
    return f"Fits {words(fits)}; all kept up to {words(kept)}"
