"""The solver of one plan: every solve on the way from a budget to a schedule that fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from checkmate.ir import Graph, Schedule, SolveResult
from checkmate.planning.progress_listener import Following, UntilSettled
from checkmate.planning.solving import Minimum, known_minimum, solve
from checkmate.progress import Cancelled, Report, never, silent
from checkmate.solvers.baselines import whole_segments
from checkmate.solvers.bounds import below_minimum, run_once_bound, working_set_bound
from checkmate.solvers.compile.compilation import compile_first
from checkmate.solvers.constraints import Constraints, constrained
from checkmate.solvers.problem import Listener, SolveOptions
from checkmate.units import Budget

_PATIENCE_SHARE = 0.25  # of the time limit: a solve ends if it gains nothing notable for this long
_HOPELESS = 0.9  # of the largest need of a single op: a budget below that is refused
_PER_SECOND = 10_000_000  # moves · ops per second, the least on a busy machine
_PER_PAIR = 20  # moves per pair of ops; on small graphs more moves find nothing better
_WORTH = 0.02  # of the cost: a schedule of whole segments may cost this much more


@dataclass(frozen=True, eq=False)
class ScheduleSolver:
    """A solver with its options and constraints. ``counted``: end ``auto`` after a number of moves instead of
    seconds, so that a graph and a budget always give the same schedule. Otherwise a solve ends when it has
    settled (``UntilSettled``)."""

    name: str
    options: SolveOptions
    report: Report = silent
    cancelled: Cancelled = never
    constraints: Constraints | None = None
    counted: bool = False

    def solve(
        self,
        graph: Graph,
        budget_bytes: int,
        *,
        start: Schedule | None = None,
        seconds: float | None = None,
    ) -> SolveResult:
        """Solve for requested bytes, in ``seconds`` or the options' time limit, if that is less."""
        limit = self.options.time_limit_s if seconds is None else min(seconds, self.options.time_limit_s)
        options = replace(self.options, time_limit_s=limit, start=start or self.options.start)
        if self.counted:
            heard = Following(graph, self.report, self.cancelled)
            if self.name == "auto" and options.moves is None:
                # So few moves that only a very slow machine reaches the time limit. If nothing is found,
                # ``auto`` runs, which may also prove that nothing fits.
                moves = max(1, min(int(limit * _PER_SECOND / graph.n), _PER_PAIR * graph.n**2))
                by_moves = replace(options, moves=moves)
                found = self._solved("local-search", graph, budget_bytes, by_moves, heard)
                if found.schedule is not None:
                    return found
        else:
            heard = UntilSettled(graph, self.report, self.cancelled, _PATIENCE_SHARE * limit)
            compile_first(heard.preparing, self.cancelled)  # the limit is for the search alone
        return self._solved(self.name, graph, budget_bytes, options, heard)

    def _solved(
        self, name: str, graph: Graph, budget_bytes: int, options: SolveOptions, heard: Listener
    ) -> SolveResult:
        return solve(
            graph,
            budget_bytes,
            solver=name,
            options=options,
            listener=heard,
            constraints=self.constraints,
        )

    def solve_above_minimum(self, graph: Graph, budget_bytes: int) -> SolveResult:
        """Solve for requested bytes; raise a BudgetBelowMinimumError where a single op exceeds them."""
        error = below_minimum(graph, budget_bytes)
        if error is not None:
            raise error
        return self.solve(graph, budget_bytes)

    def refuse_hopeless(self, graph: Graph, budget: Budget) -> None:
        """Raise a BudgetBelowMinimumError if some op alone needs far more than ``budget``."""
        # Measuring may still correct a size, so refuse only if some op needs far more by itself.
        if budget.bytes_ is not None and budget.bytes_ < _HOPELESS * working_set_bound(graph).bytes:
            error = below_minimum(graph, budget.bytes_)
            assert error is not None
            raise error

    def minimum(self, graph: Graph) -> Minimum:
        """Return the least memory known, with the cheapest schedule found for it, and the proved bound."""
        known = known_minimum(graph, constraints=self.constraints)
        found = self.solve(graph, known.bytes, start=known.schedule).schedule
        return replace(known, schedule=found or known.schedule)

    def bound_bytes(self, graph: Graph) -> int:
        """Return a lower bound on the requested bytes of every schedule."""
        return run_once_bound(constrained(graph, self.constraints or Constraints())).bytes

    def in_segments(self, graph: Graph, found: SolveResult) -> SolveResult:
        """Return a schedule of whole segments within the same budget, if it costs hardly more than ``found``;
        else ``found``.

        Each run of recomputations waits for the steps before it, and XLA fuses nothing across such a wait.
        Schedules of ``chain`` recompute whole segments at once, so they have few runs. For a GPT within 30 %
        of its temporaries on an H200, ``chain``'s schedule moved a tenth fewer bytes than that of the general
        search; for an MLP-Mixer within 45 % on a CPU it took 8 % more time than the plain step, not 29 %.
        The bound proved with ``found`` holds here too, under the same assumptions. Nothing is replaced if the
        user chose the solver.
        """
        if self.name != "auto" or found.cost is None or found.schedule is None:
            return found
        if not found.schedule.recomputations:
            return found
        heard = Following(graph, self.report, self.cancelled)
        whole = self._solved("chain", graph, found.budget_bytes, self.options, heard)
        if whole.cost is None or whole.cost > (1 + _WORTH) * found.cost:
            return found
        if found.assumptions != whole.assumptions:  # a bound under other assumptions need not hold here
            return whole
        return replace(whole, lower_bound=found.lower_bound)

    def whole_segments(self, graph: Graph, budget_bytes: int) -> Sequence[SolveResult]:
        """Return schedules that recompute all between checkpoints, the cheapest first."""
        if self.name != "auto" or not (self.constraints is None or self.constraints.is_empty):
            return ()
        return whole_segments(graph, budget_bytes)
