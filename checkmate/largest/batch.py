"""The largest batch whose schedule fits a budget at an extra cost.

The extra cost is limited. The batch is extrapolated, searched for, and bounded. Sizes grow with the batch
(``checkmate.largest.scaling``). So a schedule that fits at one batch fits at every smaller one, and a proof
that none fits at one batch holds for every larger one; ``checkmate.largest.search`` narrows the batches in
between. The default extra cost is the paper's: one extra forward pass (Jain et al. 2020, section 6.4).
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

from checkmate.errors import InfeasibleError, NoScheduleError, SolveCancelledError
from checkmate.ir.graph import Graph, Phase
from checkmate.ir.result import SolveResult
from checkmate.largest.scaling import BatchScaling
from checkmate.largest.search import BatchSearch
from checkmate.progress import Cancelled, Report, never, silent
from checkmate.solvers.certify import with_schedule
from checkmate.solvers.portfolio.least_memory import require_overhead
from checkmate.solvers.problem import Problem, SolveOptions
from checkmate.units import format_bytes


@dataclass(frozen=True, eq=False)
class MaxBatch:
    """The largest batch that was found, and what is proved about it.

    All of it is of extrapolated graphs. ``graph`` is at that batch; ``result`` is its schedule, within the
    budget and the cost. No schedule of any order within the cost fits at a batch larger than ``upper_batch``.
    ``cost_limit`` is in the unit of ``graph``. ``max_overhead`` is the extra cost allowed, as a fraction of
    computing everything once; None: one forward pass. ``plain_batch`` is the largest without recomputation,
    in the given order (0: none). ``baselines`` has the largest found for each; None where none above
    ``plain_batch`` was. ``unfinished`` names those of them whose search was cut by its time. ``at_once`` is
    how many searches ran at once at most, this one included, sharing cores. ``choices`` are pairs of a batch
    and the extra cost that the cheapest schedule found for it takes, a fraction of computing everything once;
    both rise.
    """

    graph: Graph
    scaling: BatchScaling
    batch: int
    upper_batch: int
    result: SolveResult
    cost_limit: float
    max_overhead: float | None
    plain_batch: int
    baselines: Mapping[str, int | None]
    unfinished: frozenset[str]
    seconds: float
    cancelled: bool = False
    probes: int = 0
    at_once: int = 1
    choices: tuple[tuple[int, float], ...] = ()

    @property
    def proved(self) -> bool:
        """Return whether it is proved that no larger batch fits.

        None has a schedule within budget and cost.
        """
        return self.batch >= self.upper_batch


def forward_cost(graph: Graph) -> float:
    """Return the cost of running every forward op once."""
    return math.fsum(op.cost for op in graph.ops if op.phase is Phase.FORWARD)


def cost_limit(graph: Graph, max_overhead: float | None) -> float:
    """Return the most that a schedule may cost.

    Where ``max_overhead`` is None, that is everything once and the forward ops once more.
    """
    if max_overhead is None:
        return graph.base_cost + forward_cost(graph)
    return math.inf if math.isinf(max_overhead) else graph.base_cost * (1 + max_overhead)


def max_batch(
    step: Graph | BatchScaling,
    budget_bytes: int,
    *,
    batch_size: int | None = None,
    max_overhead: float | None = None,
    options: SolveOptions | None = None,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> MaxBatch:
    """Return the largest batch whose step fits a budget.

    At this batch ``step`` has a schedule within ``budget_bytes``. The budget includes fixed bytes. ``step``
    is a graph to extrapolate from, or how it scales. ``batch_size`` is what the graph's sizes are for, where
    it does not say. ``max_overhead`` is a fraction of computing everything once, infinite for any cost; None:
    one forward pass. ``options.time_limit_s`` is for the whole search; ``options.gap`` stops it once that
    share of the proved limit is reached. When cancelled, the best so far is returned.

    Raises:
        UsageError: no batch size is known, nothing grows with it, or the extra cost is negative.
        BudgetBelowMinimumError: proved that not even one example fits. NoScheduleError: no batch was found;
        CancelledError is not raised.
    """
    require_overhead(max_overhead)
    started = time.perf_counter()
    scaling = step if isinstance(step, BatchScaling) else BatchScaling(step, batch_size or 0)
    limit = cost_limit(scaling.graph, max_overhead)
    search = BatchSearch(scaling, budget_bytes, limit, options or SolveOptions(), report, cancelled)
    search.run()
    if not search.best.batch:
        raise _nothing(search)
    found, factor = scaling.at(search.best.batch), search.best.batch / scaling.batch
    seconds = time.perf_counter() - started
    bound = search.cost_bound() * factor
    # Replays the schedule at this batch against the budget, sharing no code with what found it.
    result = with_schedule(
        Problem(found, budget_bytes), "auto", search.best.steps, lower_bound=bound, seconds=seconds
    )
    return MaxBatch(
        found,
        scaling,
        search.best.batch,
        search.high,
        result,
        limit * factor,
        max_overhead,
        search.plain_batch,
        search.baselines,
        frozenset(search.unfinished.intersection(search.baselines)),
        seconds,
        cancelled(),
        search.probes,
        choices=search.choices(),
    )


def _nothing(search: BatchSearch) -> NoScheduleError:
    budget = format_bytes(search.budget)
    error: NoScheduleError
    if search.high < 1:
        error = InfeasibleError(
            f"not even one example fits {budget} at this extra cost, in any order of execution",
            hint="raise the budget, or allow more with --max-overhead",
        )
    elif search.cancelled():
        error = SolveCancelledError("interrupted before a batch that fits was found")
    else:
        error = NoScheduleError(
            f"no batch with a schedule within {budget} at this extra cost was found in the time given",
            hint="give more seconds with --time-limit, or raise the budget",
        )
    error.details.update(budget_bytes=search.budget, upper_batch=search.high)
    return error
