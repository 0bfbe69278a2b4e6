"""Steps that XLA compiles: a plan for each batch layout, and what runs it.

The plain step and each schedule are compiled, and their memory is read. Nothing is run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import tensorflow as tf

from checkmate.backends.protocol import CompiledFit
from checkmate.backends.tf.live.trace import LiveStep
from checkmate.backends.tf.models.batch import BatchLayout, Key
from checkmate.backends.tf.private import letting_go, without_retracing_warning
from checkmate.backends.tf.trace.coarsen import fused, loose
from checkmate.backends.tf.xla.compiled import StepCompilation, XlaMemory, compile_step
from checkmate.backends.tf.xla.compiler import XlaCompilation, none_fits
from checkmate.backends.tf.xla.op_costs import costs_for_xla
from checkmate.backends.tf.xla.tied import tied_step
from checkmate.backends.xla_policy.waits import WaitPolicy, why_less
from checkmate.errors import NotCompiledError, OnlySmallTensorsError
from checkmate.fallback import planned, unplanned
from checkmate.ir import Graph, Schedule
from checkmate.planning.compiling import CompiledSearch
from checkmate.planning.plan_request import PlanRequest
from checkmate.progress import Progress, Report
from checkmate.request import OnMiss, Target
from checkmate.training.limit import Limit
from checkmate.training.memory_figures import MemoryFigures
from checkmate.training.plan import StepSubject
from checkmate.training.wording import not_planned, tell_plan
from checkmate.units import Budget, format_bytes, format_bytes_apart, plural


@dataclass(frozen=True, eq=False)
class CompiledPlan:
    """How the compiled step of one layout runs. ``step``: None if there is nothing to schedule."""

    layout: BatchLayout
    step: LiveStep | None
    fit: CompiledFit[WaitPolicy, XlaMemory] | None
    sentence: str

    @property
    def schedule(self) -> Schedule | None:
        return None if self.fit is None else self.fit.schedule

    @property
    def figures(self) -> MemoryFigures:
        fit = self.fit
        if fit is None:
            return MemoryFigures()
        temporary = fit.whole_bytes - fit.fixed_bytes
        return MemoryFigures(fit.whole_bytes, fit.budget_bytes, temporary, fit.overhead)

    @property
    def tied(self) -> WaitPolicy:
        chosen = None if self.fit is None else self.fit.chosen
        return WaitPolicy.RUNS if chosen is None else chosen.way


class CompiledSteps:
    """Plans the steps of one subject for one budget, by batch layout, and runs them."""

    def __init__(self, subject: StepSubject, request: PlanRequest) -> None:
        self._subject, self.request = subject, request
        self.plans: dict[Key, CompiledPlan] = {}
        self._limit: Limit | None = None  # set by the first step
        self._made: dict[Key, tuple[CompiledPlan, Any]] = {}

    def planned(self, layout: BatchLayout) -> CompiledPlan | None:
        return self.plans.get(layout.key)

    def plan(self, layout: BatchLayout, *, training: bool = False) -> CompiledPlan:
        """Return the plan for ``layout``; make it if there is none. ``training``: training waits for it."""
        found = self.planned(layout)
        if found is None:
            what = layout.describe()
            with self.request.progress() as report:
                found = planned(
                    lambda: self._make(layout, report),
                    lambda error: CompiledPlan(layout, None, None, f"{what}: {unplanned(error)}"),
                    self.request.on_miss,
                    example=not training,
                    passes=(NotCompiledError,),  # the caller may then use the executor
                )
            self.plans[layout.key] = found
            tell_plan(self.request, layout, found.sentence)
        return found

    def _make(self, layout: BatchLayout, report: Report) -> CompiledPlan:
        report(Progress("trace", message=f"tracing the training step, {layout.describe()}"))
        layout.require_plannable()
        try:
            traced = self._subject.trace(layout, for_xla=True)
            step = traced.with_folded(fused(traced.folded))
        except OnlySmallTensorsError:
            sentence = f"{layout.describe()}: nothing big enough to recompute; XLA compiles it as it is"
            return CompiledPlan(layout, None, None, sentence)
        for note in step.folded.traced.notes if not self.plans else ():
            self.request.tell(note)
        report(Progress("compile", message="compiling the plain step with XLA"))
        step = step.with_folded(replace(step.folded, graph=costs_for_xla(step.folded)))
        compiled = _LiveXla(self, step)
        search = CompiledSearch(compiled, self.request.solver_for(report), self.request)
        limit = self._limit_of(compiled, search)
        fit = search.fit(limit.bytes)
        if not fit.fits and self.request.on_miss is OnMiss.RAISE:
            what = f"a training step of {step.name!r} with a {layout.describe()}"
            raise none_fits(fit, what, "or use a smaller batch")
        return CompiledPlan(layout, step, fit, _sentence(step, fit, limit.words))

    def _limit_of(self, step: _LiveXla, search: CompiledSearch[WaitPolicy, XlaMemory]) -> Limit:
        """Return the bytes that arguments, results and temporaries may take together. A share refers to the
        compiled plain step, or to the step with the user's own recomputation if that takes less. ``min`` is
        the least memory known."""
        if self._limit is None:
            budget, whole, words = self.request.budget, step.plain_bytes, ""
            least = search.least_bytes() if budget == Budget() else 0
            if budget.share is not None and step.share_bytes < whole:
                whole = step.share_bytes
                words = f"{100 * budget.share:g} % of the {format_bytes(whole)} as written"
            self._limit = Limit(budget.resolve(keep_everything_peak=whole, minimum=least), words)
        return self._limit

    def call(self, layout: BatchLayout, tensors: Sequence[tf.Tensor], hint: str = "") -> Any:
        """Run the step once, or call it in the function that is being traced."""
        plan = self.plan(layout, training=True) if tf.executing_eagerly() else self.planned(layout)
        if plan is None:
            raise not_planned(layout, hint)
        return self._function(plan)(*tensors)

    def _function(self, plan: CompiledPlan) -> Any:
        key = plan.layout.key
        if self._made.get(key, (None,))[0] is not plan:
            body = self.body(plan.layout, plan.step, plan.schedule, plan.tied)
            function = tf.function(letting_go(body), autograph=False, jit_compile=True)
            self._made[key] = plan, without_retracing_warning(function)
        return self._made[key][1]

    def body(
        self, layout: BatchLayout, step: LiveStep | None, schedule: Schedule | None, tied: WaitPolicy
    ) -> Callable[..., Any]:
        def train(*tensors: tf.Tensor) -> Any:
            chosen = schedule if schedule is not None or step is None else step.unscheduled
            if step is None or chosen is None:
                return self._subject.plainly(layout, tensors)
            found, _ = step.run(chosen, tensors, emit=partial(tied_step, tied=tied))
            return self._subject.finish(step, layout, tensors, found)

        return train


class _LiveXla(XlaCompilation):
    def __init__(self, steps: CompiledSteps, step: LiveStep) -> None:
        self._steps, self._step = steps, step
        super().__init__()

    @property
    def graph(self) -> Graph:
        return self._step.folded.graph

    @cached_property
    def loose(self) -> Graph | None:
        return loose(self._step.folded, self.graph)

    @cached_property
    def as_written(self) -> StepCompilation | None:
        if not self._step.folded.traced.taken_out:
            return None
        layout = self._step.layout
        return compile_step(self._steps.body(layout, None, None, WaitPolicy.RUNS), layout.specs)

    def compiled(self, schedule: Schedule | None, tied: WaitPolicy = WaitPolicy.RUNS) -> StepCompilation:
        body = self._steps.body(self._step.layout, self._step, schedule, tied)
        return compile_step(body, self._step.layout.specs)


def _sentence(step: LiveStep, fit: CompiledFit[WaitPolicy, XlaMemory], words: str) -> str:
    """``words``: names the budget where it is not a share of the plain step."""
    peak, budget = format_bytes_apart(fit.whole_bytes, fit.budget_bytes)
    further = [f"{plural(fit.compilations - 1, 'schedule')} compiled in {fit.compile_seconds:.0f} s"]
    if fit.chosen is None:
        what = "plain training, without recomputation"
    elif not fit.recomputations:
        what = "nothing recomputed"
        further.append(why_less(fit.chosen.way))
    else:
        count = plural(fit.recomputations, "recomputation")
        what = f"{count}, {100 * fit.overhead:+.1f} % time, estimated"
    said = f"{step.layout.describe()}, compiled by XLA: {what}; {peak}"
    if fit.fits:
        base = f"{words}, plain" if words else "plain"
        line = f"{said} of {budget} ({base} {format_bytes(fit.plain_bytes)})"
    else:
        over = format_bytes(fit.whole_bytes - fit.budget_bytes)
        line = f"{said}, {over} over the budget of {budget}; {fit.remedy}"
        further.append("no schedule that was compiled keeps the budget")
        further += [f"the budget is {words}"] if words else []
    return "\n".join([line, *further])


def is_for_xla(model: Any, request: PlanRequest, *, compiled: bool) -> bool:
    """Return whether XLA is to compile the step of ``model``; where it is to and cannot, say why."""
    if request.target is Target.EXECUTOR or not (compiled or request.target is Target.XLA):
        return False
    replicas: int = model.distribute_strategy.num_replicas_in_sync
    if replicas > 1:
        why = f"a step on {replicas} replicas is not scheduled for XLA, so TensorFlow's executor runs it"
        request.tell(why)
    return replicas == 1
