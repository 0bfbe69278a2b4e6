"""The largest batch on each card, and what an example costs there; nothing is run on a card.

Sizes are those of the extrapolated step; seconds are estimates (``checkmate.largest.roofline``).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from checkmate.catalog.cards import Card
from checkmate.errors import CancelledError, InfeasibleError, NoScheduleError, SolveCancelledError, UsageError
from checkmate.frontiers.cards import CardFit
from checkmate.ir import Graph, Schedule
from checkmate.largest.batch import largest_batch_that, max_batch
from checkmate.largest.roofline import priced, require_operations, step_seconds
from checkmate.largest.scaling import BatchScaling
from checkmate.memory.simulate import simulate
from checkmate.progress import Cancelled, Progress, Report, never, silent
from checkmate.solvers.problem import SolveOptions

_LEAST_S = 0.5  # of the search for one card


@dataclass(frozen=True)
class CardStep:
    """A step at the largest batch found for it: its estimated seconds, and recomputation's share of them."""

    batch: int
    seconds: float
    overhead: float = 0.0

    @property
    def seconds_per_example(self) -> float:
        return self.seconds / self.batch


@dataclass(frozen=True, eq=False)
class CardPlan:
    """The largest batches that fit a card.

    ``budget_bytes``: the card's memory without the reserve. ``plain``: with the step that keeps everything;
    None: not one example fits. ``largest``: within the extra cost; None: none was found. ``upper_batch``: no
    batch above it fits, by proof; 0: not even one example does.
    """

    card: Card
    budget_bytes: int
    answer: CardFit
    plain: CardStep | None
    largest: CardStep | None
    upper_batch: int | None

    @property
    def proved(self) -> bool:
        return self.upper_batch is not None and self.upper_batch <= (
            self.largest.batch if self.largest else 0
        )


def plans_for_cards(
    scaling: BatchScaling,
    cards: Sequence[Card],
    *,
    reserve_bytes: int,
    max_overhead: float | None = None,
    options: SolveOptions | None = None,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> tuple[CardPlan, ...]:
    """Return what is known of the step, whose costs are operations, on each card.

    ``reserve_bytes`` of each card are not there for the step. ``options.time_limit_s`` is for all cards
    together. When cancelled, the cards that are done are returned.

    Raises:
        UsageError: costs are not operations, there is no card, or the extra cost is negative.
    """
    require_operations(scaling.graph)
    if not cards:
        raise UsageError("there is no card to plan for", hint="name one, or leave the names out for all")
    asked, begun = options or SolveOptions(), time.perf_counter()
    plans: list[CardPlan] = []
    for place, card in enumerate(cards):
        if cancelled():
            break
        report(Progress("plan", place, len(cards), card.name))
        left = asked.time_limit_s - (time.perf_counter() - begun)
        limit = max(_LEAST_S, left / (len(cards) - place))
        budget = max(1, card.memory_bytes - reserve_bytes)
        try:
            plans.append(
                _plan(scaling, card, budget, max_overhead, replace(asked, time_limit_s=limit), cancelled)
            )
        except (CancelledError, SolveCancelledError):
            break
    return tuple(plans)


def _plan(
    scaling: BatchScaling,
    card: Card,
    budget: int,
    max_overhead: float | None,
    options: SolveOptions,
    cancelled: Cancelled,
) -> CardPlan:
    fits = _largest_plain(scaling, budget)
    plain = _step(scaling.at(fits), range(scaling.graph.n), card) if fits else None
    try:
        found = max_batch(
            priced(scaling, card, max(1, fits)),
            budget,
            max_overhead=max_overhead,
            options=options,
            cancelled=cancelled,
        )
    except InfeasibleError:
        return CardPlan(card, budget, CardFit.TOO_SMALL, None, None, 0)
    except SolveCancelledError:
        raise
    except NoScheduleError as error:
        upper = error.details.get("upper_batch")
        return CardPlan(card, budget, CardFit.UNKNOWN, None, None, upper)
    steps = found.result.require_schedule().steps.tolist()
    largest = _step(scaling.at(found.batch), steps, card)
    return CardPlan(card, budget, CardFit.FITS, plain, largest, found.upper_batch)


def _step(graph: Graph, steps: Sequence[int], card: Card) -> CardStep:
    seconds = step_seconds(graph, steps, card)
    plain = step_seconds(graph, range(graph.n), card)
    return CardStep(graph.batch_size or 1, seconds, seconds / plain - 1 if plain > 0 else 0.0)


def _largest_plain(scaling: BatchScaling, budget: int) -> int:
    def fits(batch: int) -> bool:
        graph = scaling.at(batch)
        return simulate(graph, Schedule.plain(graph)).peak_bytes <= budget

    return largest_batch_that(fits, scaling.largest())
