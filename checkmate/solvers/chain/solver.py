"""The chain program as a solver.

It makes plans for amounts of memory around the budget, replays them exactly, fits them into the budget and
trims them. The table counts memory in slots and ignores what lives within a step, so a plan's need is only
known after a replay. One table answers for every amount. Plans for somewhat less and somewhat more than the
budget are written out, and those for more are fitted into it as greedy does. For a chain of unequal layers,
the least cost (among plans that reverse it segment by segment) is found to within the rounding. A graph with
many branches is a poor chain, and its plans are poor too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from checkmate.ir.arrays import Steps
from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.ir.schedule import Schedule
from checkmate.memory.simulate import simulate
from checkmate.progress import Cancelled, never
from checkmate.solvers.certify import cancelled_before, with_schedule, without_schedule
from checkmate.solvers.chain.costs import Prices, price, standing
from checkmate.solvers.chain.options import price_segments
from checkmate.solvers.chain.plan import actions, steps_of
from checkmate.solvers.chain.seeds import seed_sets
from checkmate.solvers.chain.segments import Chain, find_chain, with_seeds
from checkmate.solvers.chain.table import CostTable
from checkmate.solvers.compile.compilation import compile_first
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.sequence.greedy_solver import greedy_steps
from checkmate.solvers.sequence.greedy_solver import warm_up as greedy_warm_up
from checkmate.solvers.sequence.model import ScaledModel, build_model

_NAME = "chain"
SEGMENTS = 150
_SLOTS, _ROUGH_SLOTS = 400, 256
# Plans for up to this share of the budget are tried: a plan for more memory may give a better fitted one.
_SHARE_OF_BUDGET = 1.3
_PLANS, _NEARER = 12, 8  # amounts of memory that are tried over the whole range, and around the best of them
_PRICING_SHARE = 0.2  # the share of the time for pricing
_FITTING_S = 0.3  # seconds for one plan


class ChainSolver:
    """Find optimal checkpoints of chains.

    Networks that are nearly chains get good schedules. There is no bound.
    """

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        """Return the cheapest of its plans that fits. LIMIT if none fits, or if the graph is no chain."""
        started = time.perf_counter()
        graph = problem.graph
        chain = find_chain(graph, most=SEGMENTS)
        if chain is None:
            sentence = (
                "chain needs a forward pass of several segments and a backward pass that reads what they "
                f"made; {graph.name!r} has none, use another solver"
            )
            return without_schedule(
                problem, _NAME, SolveStatus.LIMIT, sentence, seconds=time.perf_counter() - started
            )
        compile_first(listener.preparing, listener.cancelled)
        if listener.cancelled():
            return cancelled_before(problem, _NAME)
        warm_up()
        started = time.perf_counter()  # compiling does not count as the user's time
        until = started + options.time_limit_s
        search = ChainSearch(problem, chain, build_model(graph), until=until, cancelled=listener.cancelled)
        for found in search.improvements():
            listener.incumbent(found.tolist(), search.cost)
        seconds = time.perf_counter() - started
        statistics = {"segments": len(chain.segments), "plans": search.tried}
        if search.best is not None:
            return with_schedule(
                problem,
                _NAME,
                search.best,
                lower_bound=graph.base_cost,
                seconds=seconds,
                statistics=statistics,
            )
        status = SolveStatus.CANCELLED if listener.cancelled() else SolveStatus.LIMIT
        sentence = "no plan of the chain program fits the budget; another solver may find a schedule"
        return without_schedule(problem, _NAME, status, sentence, seconds=seconds, statistics=statistics)


def warm_up() -> None:
    """Compile the kernels, or load them from the cache."""
    greedy_warm_up()
    tiny_table().fill(never)


def tiny_table() -> CostTable:
    """Return the table of two layers and two slots, to load the kernels with."""
    from checkmate.graphs.generate import training_chain

    graph = training_chain(2)
    chain = find_chain(graph)
    assert chain is not None
    prices = price_lists(graph, chain, several_until=0.0, over=never)
    return CostTable(graph, prices, standing(graph, chain), unit=1, slots=2)


def price_lists(graph: Graph, chain: Chain, *, several_until: float, over: Cancelled) -> list[Prices]:
    """Return the prices of the chain alone, and with each set of seeds.

    There are fewer if ``over`` says so. Until ``several_until`` (``time.perf_counter``) segments have several
    options.
    """
    lists: list[Prices] = []
    for entry in [chain, *(with_seeds(graph, chain, ops) for ops in seed_sets(graph, chain))]:
        pieces = price_segments(graph, entry, several_until=several_until, over=over)
        if over():
            return lists
        lists.append(price(graph, entry, pieces))
    return lists


def rough_cost(problem: Problem, chain: Chain, cancelled: Cancelled) -> float:
    """Return the cost of a plan for about the budget, by rough prices.

    This takes a tenth of a full search's time. It is infinite if there is no plan.
    """
    graph = problem.graph
    prices = [price(graph, chain, price_segments(graph, chain, several_until=0.0, over=cancelled))]
    if cancelled():
        return math.inf
    table = _table(problem, chain, prices, slots=_ROUGH_SLOTS)
    amounts = _distinct(table) if table.fill(cancelled) else []
    if not amounts:
        return math.inf
    own = (problem.budget_bytes - graph.fixed_bytes) // table.unit
    nearest = max((amount for amount in amounts if amount <= own), default=amounts[0])
    return float(graph.cost[np.array(steps_of(graph, prices, actions(table, nearest)))].sum())


def _table(problem: Problem, chain: Chain, prices: list[Prices], *, slots: int) -> CostTable:
    """Return the table of all amounts of memory to try, not filled yet."""
    graph = problem.graph
    room = int(_SHARE_OF_BUDGET * max(1, problem.budget_bytes - graph.fixed_bytes))
    slots = min(slots, room + 1)
    return CostTable(graph, prices, standing(graph, chain), unit=max(1, -(-room // (slots - 1))), slots=slots)


@dataclass
class ChainSearch:
    """A search for plans until ``until`` (``time.perf_counter``).

    ``best``: op indices of the cheapest plan that fits, ``cost`` its cost.
    """

    problem: Problem
    chain: Chain
    scaled: ScaledModel
    until: float
    cancelled: Cancelled
    best: Steps | None = field(init=False, default=None)
    cost: float = field(init=False, default=math.inf)
    tried: int = field(init=False, default=0)

    def improvements(self) -> Iterator[Steps]:
        """Yield every schedule that fits and costs less than all before."""
        graph = self.problem.graph
        begun = time.perf_counter()
        pricing_until = begun + _PRICING_SHARE * max(0.0, self.until - begun)
        prices = price_lists(graph, self.chain, several_until=pricing_until, over=self._over)
        if self._over():
            return
        table = _table(self.problem, self.chain, prices, slots=_SLOTS)
        if not table.fill(self._over):
            return
        amounts = _distinct(table)
        if not amounts:
            return
        own = (self.problem.budget_bytes - graph.fixed_bytes) // table.unit
        chosen = [
            max((amount for amount in amounts if amount <= own), default=amounts[0]),
            *_spread(amounts, _PLANS),
        ]
        nearest = chosen[0]
        for turn in range(2):
            for amount in dict.fromkeys(chosen):
                if self._over():
                    return
                if self._try(steps_of(graph, prices, actions(table, amount))) and self.best is not None:
                    nearest = amount
                    yield self.best
            at, width = amounts.index(nearest), max(_NEARER, len(amounts) // _PLANS)
            chosen = _spread(amounts[max(0, at - width) : at + width + 1], _NEARER) if turn == 0 else []

    def _over(self) -> bool:
        return self.cancelled() or time.perf_counter() > self.until

    def _try(self, plan: list[int]) -> bool:
        """Fit the plan into the budget and trim it; return whether it is the best."""
        self.tried += 1
        until = min(self.until, time.perf_counter() + _FITTING_S)
        budget = self.problem.budget_bytes
        start = np.array(plan, np.int32)
        end = greedy_steps(self.scaled, budget, until=until, cancelled=self.cancelled, start=start)
        if not end.fits:
            return False
        timeline = simulate(self.problem.graph, Schedule.of(self.problem.graph, end.steps))
        if timeline.peak_bytes > budget or timeline.cost >= self.cost:
            return False
        self.best, self.cost = end.steps, timeline.cost
        return True


def _distinct(table: CostTable) -> list[int]:
    least = table.least.tolist()
    return [slots for slots, cost in enumerate(least) if cost < (least[slots - 1] if slots else math.inf)]


def _spread(amounts: Sequence[int], count: int) -> list[int]:
    """Return about ``count`` of the amounts, evenly spread, largest first."""
    if not amounts:
        return []
    picked = {round(place) for place in np.linspace(0, len(amounts) - 1, min(count, len(amounts))).tolist()}
    return [amounts[place] for place in sorted(picked, reverse=True)]
