"""Plan each batch layout of a model that XLA compiles.

The plain step and each schedule are compiled, and their memory is read. Nothing is run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from checkmate.backends.tf.models.batch import BatchLayout, Key
from checkmate.backends.tf.trace.coarsen import fused, loose
from checkmate.backends.tf.training.plans.plan import PlanRequest, SolveRequest
from checkmate.backends.tf.training.trace import LiveStep
from checkmate.backends.tf.training.wording import tell_plan
from checkmate.backends.tf.xla.compiled import StepCompilation, compile_step
from checkmate.backends.tf.xla.fit import Solving, XlaFit, fit_compiled, none_fits, smallest_remedy
from checkmate.backends.tf.xla.op_costs import costs_for_xla
from checkmate.backends.xla_policy.waits import WaitPolicy, why_less
from checkmate.errors import CheckmateError, NotCompiledError, OnlySmallTensorsError
from checkmate.fallback import planned, unplanned
from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule
from checkmate.memory.compiling import Patience, lowered
from checkmate.progress import Progress, Report
from checkmate.request import OnMiss
from checkmate.units import format_bytes, format_bytes_apart, plural

Trace = Callable[[Any, BatchLayout], LiveStep]
Body = Callable[[BatchLayout, LiveStep | None, Schedule | None, WaitPolicy], Callable[..., Any]]


@dataclass(frozen=True, eq=False)
class CompiledPlan:
    """How the compiled step of one layout runs.

    ``step``: None where there is nothing to schedule. ``fit``: what was compiled for it.
    """

    layout: BatchLayout
    step: LiveStep | None
    fit: XlaFit | None
    sentence: str

    @property
    def schedule(self) -> Schedule | None:
        """Return the schedule; None: the plain step is compiled."""
        return None if self.fit is None else self.fit.schedule

    @property
    def tied(self) -> WaitPolicy:
        """Return which steps of the schedule wait for those before them."""
        return WaitPolicy.RUNS if self.fit is None else self.fit.tied


class CompiledPlanner:
    """Hold the plans of one model for one budget, by batch layout.

    ``body``: makes the function that is compiled, of a layout's tensors.
    """

    def __init__(self, model: Any, request: PlanRequest, trace: Trace, body: Body) -> None:
        self.model, self.request, self._trace, self._body = model, request, trace, body
        self.plans: dict[Key, CompiledPlan] = {}
        self._limit: int | None = None  # until a first step tells what a share is of

    def planned(self, layout: BatchLayout) -> CompiledPlan | None:
        """Return the plan for ``layout``; None where there is none yet."""
        return self.plans.get(layout.key)

    def plan(self, layout: BatchLayout, *, training: bool = False) -> CompiledPlan:
        """Return the plan for ``layout``; make it now if there is none.

        ``training``: training waits for it. Where planning fails, the step trains as before.

        Raises:
            NotCompiledError: XLA cannot compile the step. CheckmateError: as ``checkmate.fallback.planned``.
        """
        found = self.planned(layout)
        if found is None:
            with self.request.progress() as report:
                found = planned(
                    lambda: self._made(layout, report),
                    lambda error: self._without_plan(layout, error),
                    self.request.on_miss,
                    example=not training,
                    passes=(NotCompiledError,),
                )
            self.plans[layout.key] = found
            tell_plan(self.request, layout, found.sentence)
        return found

    def _without_plan(self, layout: BatchLayout, error: CheckmateError) -> CompiledPlan:
        return CompiledPlan(layout, None, None, f"{layout.describe()}: {unplanned(error)}")

    def _made(self, layout: BatchLayout, report: Report) -> CompiledPlan:
        report(Progress("trace", message=f"tracing the training step, {layout.describe()}"))
        layout.require_plannable()
        try:
            traced = self._trace(self.model, layout)
            step = traced.with_folded(fused(traced.folded))
        except OnlySmallTensorsError:
            sentence = f"{layout.describe()}: nothing big enough to recompute; XLA compiles it as it is"
            return CompiledPlan(layout, None, None, sentence)
        report(Progress("compile", message="compiling the plain step with XLA"))
        plain = self._compiled(step, None)
        graph = costs_for_xla(step.folded)
        limit = self._limit_of(step, graph, plain, report)
        fit = self._fitted(step, graph, plain, limit, report)
        if not fit.fits and self.request.on_miss is OnMiss.RAISE:
            what = f"a training step of {step.name!r} with a {layout.describe()}"
            raise none_fits(what, fit, f"{smallest_remedy(fit)}, or use a smaller batch")
        return CompiledPlan(layout, step, fit, _sentence(step, fit))

    def _compiled(
        self, step: LiveStep, schedule: Schedule | None, tied: WaitPolicy = WaitPolicy.RUNS
    ) -> StepCompilation:
        return compile_step(self._body(step.layout, step, schedule, tied), step.layout.specs)

    def _limit_of(self, step: LiveStep, graph: Graph, plain: StepCompilation, report: Report) -> int:
        """Return what arguments, results and temporaries may take in all.

        A share is of the plain step as XLA compiles it. ``min`` is what the schedule with the least memory
        known takes.
        """
        if self._limit is None:
            budget, least = self.request.budget, 0
            if budget.bytes_ is None and budget.share is None:
                least = self._compiled(step, self._least(Patience(), report, graph)).memory.peak_bytes
            self._limit = budget.resolve(keep_everything_peak=plain.memory.peak_bytes, minimum=least)
        return self._limit

    def _least(self, patience: Patience, report: Report, graph: Graph) -> Schedule:
        known = self.request.least(graph, report)
        solve = partial(self._solved, patience, report, graph)
        return lowered(graph, known.schedule, known.bound_bytes, solve)

    def _solved(self, patience: Patience, report: Report, graph: Graph, asked: int) -> Schedule | None:
        ask = SolveRequest(graph, asked, None, patience.share * self.request.limit_s)
        found = self.request.answer(ask, report)
        patience.note(found)
        return self.request.segments(graph, found, report).schedule

    def _fitted(
        self, step: LiveStep, graph: Graph, plain: StepCompilation, limit: int, report: Report
    ) -> XlaFit:
        patience = Patience()
        return fit_compiled(
            graph,
            plain,
            limit,
            compile=lambda schedule, tied: self._compiled(step, schedule, tied),
            solving=Solving(
                partial(self._solved, patience, report),
                partial(self._least, patience, report),
                self.request.whole,
            ),
            report=report,
            loose=loose(step.folded, graph),
            tell=self.request.tell,
        )


def _sentence(step: LiveStep, fit: XlaFit) -> str:
    """Say what was planned: in one line, and in further lines all else."""
    peak, budget = format_bytes_apart(fit.memory.peak_bytes, fit.budget_bytes)
    further = [f"{plural(len(fit.attempts), 'schedule')} compiled in {fit.compile_seconds:.0f} s"]
    if fit.schedule is None:
        what = "plain training, without recomputation"
    elif not fit.extra_steps:
        what = "nothing recomputed"
        further.append(why_less(fit.tied))
    else:
        count = plural(fit.extra_steps, "recomputation")
        what = f"{count}, {100 * fit.overhead:+.1f} % time, estimated"
    said = f"{step.layout.describe()}, compiled by XLA: {what}; {peak}"
    if fit.fits:
        line = f"{said} of {budget} (plain {format_bytes(fit.plain.peak_bytes)})"
    else:
        over = format_bytes(fit.memory.peak_bytes - fit.budget_bytes)
        line = f"{said}, {over} over the budget of {budget}; {smallest_remedy(fit)}"
        further.append("no schedule that was compiled keeps the budget")
    return "\n".join([line, *further])
