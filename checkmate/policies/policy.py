"""A policy for a budget, beside the best schedule for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from checkmate import planning
from checkmate.errors import SolverCrashedError
from checkmate.ir import Graph, Schedule, SolveResult, SolveStatus
from checkmate.memory.check import check
from checkmate.memory.simulate import simulate
from checkmate.planning import Following
from checkmate.policies.code import code_of
from checkmate.policies.search import choose
from checkmate.policies.segment import is_keras
from checkmate.policies.segments import Segments
from checkmate.progress import Cancelled, Progress, Report, never, silent
from checkmate.solvers.problem import SolveOptions
from checkmate.units import format_bytes, format_overhead, plural

_SHARE, _MOST_S = 0.25, 15.0  # of the time limit, for the choice of segments
_OUT_OF_ORDER = 0.01  # of the budget: what TensorFlow holds more where it runs ops in another order


@dataclass(frozen=True, eq=False, repr=False)
class Policy:
    """Segments of a model that are computed again, each as one, and the code that says so.

    ``segments``: of each, its module or scope, or the first and the last layer of a run. ``schedule`` is the
    step that the policy amounts to. ``cost`` (in the graph's unit) and ``peak_bytes`` (requested, with the
    copies of inputs that TensorFlow makes) are predicted. If the peak is over ``budget_bytes``, no policy was
    found that keeps it, and this is the closest. ``code`` is for the user's own program; it is empty where
    everything fits. ``best`` is the schedule that the solver found, for which this program is needed.
    """

    graph: Graph
    budget_bytes: int
    segments: tuple[str, ...]
    schedule: Schedule
    peak_bytes: int
    cost: float
    code: str
    best: SolveResult

    @property
    def fits(self) -> bool:
        return self.peak_bytes <= self.budget_bytes

    @property
    def overhead(self) -> float:
        """Return the extra cost, as a share of computing everything once."""
        return self.cost / self.graph.base_cost - 1 if self.graph.base_cost else 0.0

    def __repr__(self) -> str:
        return "\n".join([*self.lines(), *(["", self.code.rstrip()] if self.code else [])])

    def lines(self) -> Iterator[str]:
        """Yield the sentences about the policy, without its code."""
        budget, number = format_bytes(self.budget_bytes), plural(len(self.segments), "segment")
        if not self.fits:
            yield f"{self.graph.name} within {budget}: no policy found keeps it; the closest has {number}"
        elif not self.segments:
            yield f"{self.graph.name} within {budget}: everything fits, so nothing has to be computed again"
        else:
            yield f"{self.graph.name} within {budget}: a policy of {number}"
        cost = format_overhead(self.cost, self.graph.base_cost)
        yield f"  policy    {format_bytes(self.peak_bytes)} (requested bytes, predicted), {cost}"
        yield f"  schedule  {self._of_best()}"
        yield from (f"  again     {name}" for name in self.segments)

    def _of_best(self) -> str:
        best = self.best
        if best.schedule is None or best.cost is None:
            return best.message or "none was found"
        cost = format_overhead(best.cost, best.base_cost)
        if best.status is SolveStatus.OPTIMAL:
            how = "optimal, proved"
        elif best.gap is None:
            how = "solved; no bound says how good it is"
        else:
            how = f"solved, at most {100 * (best.above_best or best.gap):.2f} % above the best possible"
        return f"{format_bytes(best.peak_bytes)}, {cost}: {how}"

    def to_json(self) -> dict[str, Any]:
        best = self.best
        return {
            "graph_name": self.graph.name,
            "framework": self.graph.runner.backend,
            "budget_bytes": self.budget_bytes,
            "fits": self.fits,
            "segments": list(self.segments),
            "steps": self.schedule.steps.tolist(),
            "peak_bytes": self.peak_bytes,
            "cost": self.cost,
            "base_cost": self.graph.base_cost,
            "overhead": self.overhead,
            "code": self.code,
            "schedule": {
                "status": best.status.value,
                "solver": best.solver,
                "peak_bytes": best.peak_bytes,
                "cost": best.cost,
                "overhead": best.overhead,
                "gap": best.gap,
                "message": best.message,
            },
        }


def find_policy(
    graph: Graph,
    budget_bytes: int,
    *,
    options: SolveOptions | None = None,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> Policy:
    """Choose segments of ``graph`` for a budget, and solve for the best schedule, in the options' time.

    Raises:
        SolverCrashedError: a schedule is wrong.
    """
    asked = options or SolveOptions()
    seconds = min(_MOST_S, _SHARE * asked.time_limit_s)
    segments = Segments.of(graph)
    report(Progress("policy", message="choosing layers"))
    margin = _OUT_OF_ORDER * budget_bytes if is_keras(graph) and segments.peak_bytes(()) > budget_bytes else 0
    chosen = choose(segments, int(budget_bytes - margin), limit_s=seconds, cancelled=cancelled)
    schedule = Schedule.of(graph, segments.steps(chosen))
    replayed = simulate(graph, schedule)
    seen = check(graph, schedule.steps.tolist())
    if not seen.valid or seen.peak_bytes != replayed.peak_bytes:
        raise SolverCrashedError(
            f"the policy's schedule is wrong: {seen.problem}", hint="please report the graph"
        )
    best = planning.solve(
        graph,
        budget_bytes,
        options=replace(asked, time_limit_s=asked.time_limit_s - seconds, start=schedule),
        listener=Following(graph, report, cancelled),
    )
    return Policy(
        graph,
        budget_bytes,
        tuple(segments.shown(segment) for segment in chosen),
        schedule,
        segments.peak_bytes(chosen),
        float(replayed.cost),
        code_of(segments, chosen),
        replace(best, graph=graph),
    )
