"""The chain program as a solver.

The table counts memory in slots and ignores what lives within a step, so a plan's need is only known after a
replay. One table answers for every amount. Plans for somewhat less and somewhat more than the budget are
written out and replayed, and those for more are fitted into it as greedy does. For a chain of unequal layers,
the least cost (among plans that reverse it segment by segment) is found to within the rounding. A graph with
many branches is a poor chain, and its plans are poor too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from checkmate.ir import Graph, Schedule, SolveResult, SolveStatus
from checkmate.ir.arrays import Steps
from checkmate.memory.simulate import simulate
from checkmate.progress import Cancelled, never
from checkmate.solvers.certify import cancelled_before, concluded, without_schedule
from checkmate.solvers.chain.cost_table import CostTable, Prices, price, standing
from checkmate.solvers.chain.forward_segments import Chain, find_chain, seed_sets, with_seeds
from checkmate.solvers.chain.kernel import PLAIN, REUSE, SEEDED
from checkmate.solvers.chain.segment_options import SegmentOption, price_segments
from checkmate.solvers.compile.compilation import load_kernels
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.retention import without_useless
from checkmate.solvers.sequence.greedy_solver import greedy_steps
from checkmate.solvers.sequence.kernel_arrays import ScaledModel, build_model


@dataclass(frozen=True)
class ForwardSweep:
    """Run the segments, except ops whose seeds are live; retain the outputs of the last segment."""

    first: int
    last: int
    price_list: int


@dataclass(frozen=True)
class Keep:
    """Run ``segment`` by ``option``; ``reuse``: its outputs are live already."""

    segment: int
    option: SegmentOption
    reuse: bool


@dataclass(frozen=True)
class Reverse:
    """Run a segment's backward ops by ``option``."""

    option: SegmentOption


Action = ForwardSweep | Keep | Reverse


@dataclass(frozen=True)
class _Stretch:
    """Segments ``first`` to ``last``, to be reversed in a mode of the table and in ``slots`` slots."""

    first: int
    last: int
    mode: int
    slots: int


def actions(table: CostTable, slots: int) -> Iterator[Action]:
    """Yield the cheapest plan for the whole chain in ``slots`` slots; there must be one."""
    todo: list[Action | _Stretch] = [_Stretch(0, table.count - 1, 0, slots)]
    while todo:
        entry = todo.pop()
        if isinstance(entry, _Stretch):
            todo.extend(reversed(_parts(table, entry)))
        else:
            yield entry


def _parts(table: CostTable, stretch: _Stretch) -> list[Action | _Stretch]:
    s, t, mode, slots = stretch.first, stretch.last, stretch.mode, stretch.slots
    if mode == REUSE and table.costs[PLAIN, t, s, slots] <= table.costs[REUSE, t, s, slots]:
        mode = PLAIN
    kept = table.option_costs(s, t, mode, slots)
    best, price_list, again, costs = math.inf, 0, mode, np.zeros(0)
    for choice in _ways_again(table, mode) if s < t else ():
        found = table.cut_costs(s, t, mode, *choice, slots)
        if found.min() < best:
            best, (price_list, again), costs = float(found.min()), choice, found
    if kept.min() <= best:
        row = int(np.argmin(kept))
        option = table.options(mode, s)[row]
        keep, reverse = Keep(s, option, mode == REUSE and s == t), Reverse(option)
        return [
            keep,
            *([_Stretch(s + 1, t, mode, slots - table.taken(mode, s, row))] if s < t else []),
            reverse,
        ]
    r = s + int(np.argmin(costs))
    left = slots - int(table.sizes.cut[price_list, s, r])
    return [
        ForwardSweep(s, r, max(0, mode - 1)),
        _Stretch(r + 1, t, mode, left),
        _Stretch(s, r, again, slots),
    ]


def _ways_again(table: CostTable, mode: int) -> list[tuple[int, int]]:
    if mode >= SEEDED:
        return [(mode - 1, mode)]
    return [(0, REUSE), *((q, q + 1) for q in range(1, len(table.prices)))]


def steps_of(graph: Graph, prices: Sequence[Prices], plan: Iterator[Action]) -> list[int]:
    """The plan as op indices; ops that must run once do so where it first has them."""
    ran = [False] * len(prices[0].pieces)
    steps: list[int] = []

    def run(segment: int, ops: Sequence[int]) -> None:
        if not ran[segment]:
            ran[segment] = True
            steps.extend(prices[0].chain.segments[segment].forward)
        else:
            steps.extend(op for op in ops if graph.recomputable[op])

    for action in plan:
        match action:
            case ForwardSweep(first=first, last=last, price_list=price_list):
                for segment in range(first, last + 1):
                    run(segment, prices[price_list].chain.segments[segment].forward)
            case Keep(segment=segment, option=option, reuse=reuse):
                run(segment, option.tail if reuse else option.forward)
            case Reverse(option=option):
                steps.extend(option.backward)
    return without_useless(graph, steps)


_NAME = "chain"
SEGMENTS = 150
_SLOTS, _ROUGH_SLOTS = 400, 256
# Plans for up to this share of the budget are tried, since a larger plan may be good after fitting.
_SHARE_OF_BUDGET = 1.3
_PLANS, _NEARER = 12, 8  # how many amounts of memory to try over the whole range, then around the best
_PRICING_SHARE = 0.2  # the share of the time for pricing
_FITTING_S = 0.3  # seconds for one plan


class ChainSolver:
    """Find optimal checkpoints of chains, and good ones of networks that are nearly chains."""

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
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
        if not load_kernels(listener.cancelled, listener.preparing):
            return cancelled_before(problem, _NAME)
        started = time.perf_counter()  # compiling does not count as the user's time
        until = started + options.time_limit_s
        search = ChainSearch(problem, chain, build_model(graph), until=until, cancelled=listener.cancelled)
        for found in search.improvements():
            listener.incumbent(found.tolist(), search.cost)
        return concluded(
            problem,
            _NAME,
            search.best,
            listener,
            nothing="no plan of the chain program fits the budget; another solver may find a schedule",
            seconds=time.perf_counter() - started,
            lower_bound=graph.base_cost,
            statistics={"segments": len(chain.segments), "plans": search.tried},
        )


def tiny_table() -> CostTable:
    """The table of two layers and two slots, to translate the kernels with."""
    from checkmate.graphs.layers import LayerBuilder, training_graph

    network = LayerBuilder("tiny", (1,))
    network.dense(network.dense(network.input, 1), 1)
    graph = training_graph(network.build(), batch_size=1)
    chain = find_chain(graph)
    assert chain is not None
    prices = price_lists(graph, chain, several_until=0.0, over=never)
    return CostTable(graph, prices, standing(graph, chain), unit=1, slots=2)


def price_lists(graph: Graph, chain: Chain, *, several_until: float, over: Cancelled) -> list[Prices]:
    """The prices of the chain alone, and with each set of seeds; fewer if ``over`` says so."""
    lists: list[Prices] = []
    for entry in [chain, *(with_seeds(graph, chain, ops) for ops in seed_sets(graph, chain))]:
        pieces = price_segments(graph, entry, several_until=several_until, over=over)
        if over():
            return lists
        lists.append(price(graph, entry, pieces))
    return lists


def rough_cost(problem: Problem, chain: Chain, cancelled: Cancelled) -> float:
    """The cost of a plan for about the budget, by rough prices; infinite if there is none."""
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
    graph = problem.graph
    room = int(_SHARE_OF_BUDGET * max(1, problem.budget_bytes - graph.fixed_bytes))
    slots = min(slots, room + 1)
    return CostTable(graph, prices, standing(graph, chain), unit=max(1, -(-room // (slots - 1))), slots=slots)


@dataclass
class ChainSearch:
    """A search for plans until ``until`` (``time.perf_counter``). ``best``: the cheapest plan that fits."""

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
    if not amounts:
        return []
    picked = {round(place) for place in np.linspace(0, len(amounts) - 1, min(count, len(amounts))).tolist()}
    return [amounts[place] for place in sorted(picked, reverse=True)]
