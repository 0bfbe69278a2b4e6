"""Plan each batch layout of a model by measuring on its first batch."""

from __future__ import annotations

import dataclasses
import gc
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import tensorflow as tf

from checkmate.backends.tf.devices import warms_up
from checkmate.backends.tf.emit.set_aside import SmallChunks, fetch_region
from checkmate.backends.tf.live.measure import Mark
from checkmate.backends.tf.live.trace import LiveStep
from checkmate.backends.tf.models.batch import BatchLayout, Key
from checkmate.backends.tf.restoring import settle
from checkmate.errors import CheckmateError, OnlySmallTensorsError
from checkmate.fallback import planned, unplanned
from checkmate.ir import Schedule
from checkmate.machine.garbage import only_newer_garbage
from checkmate.machine.plan_store import KeptPlan
from checkmate.planning.metered import APART
from checkmate.planning.plan_request import PlanRequest
from checkmate.progress import Progress, Report
from checkmate.request import OnMiss
from checkmate.training.improve import Improvement
from checkmate.training.kept import PlanMemory
from checkmate.training.known import known_limit, known_plan, measured_again, recall, why_searched
from checkmate.training.limit import Phases, RisingLimit, limit_of
from checkmate.training.neighbour import Learned
from checkmate.training.plan import StepPlan, StepSubject, meter_of
from checkmate.training.search import PlanSearch
from checkmate.training.trials import Trials
from checkmate.training.wording import tell_plan
from checkmate.units import format_bytes, format_bytes_apart

_CORRECTIONS = 3
_FURTHER = 1.05  # a plan known to be over the budget is reported again if its peak rises by this factor


@dataclass
class _LayoutState:
    """The plan of a batch layout, and what was observed in training.

    ``exceeding``: the earlier plan, which exceeded the budget, while a new one is made. ``plain_bytes``: the
    plain step's measured peak. ``plain_ran``: whether it ran in this process. ``aim_bytes``: a limit below
    the budget for the next plan, after one exceeded it. ``seen_bytes``: the highest peak observed over the
    budget. ``cold``: a plan of an earlier run is used that has not run in training yet. ``crowded``: how
    often the layout was planned again because other allocations grew. ``stays``: the user was told that the
    plan stays although they grew. ``few``: if all tensors were small, the elements of that batch; a batch of
    twice as many is planned again."""

    plan: StepPlan | None = None
    exceeding: StepPlan | None = None
    plain_bytes: int | None = None
    plain_ran: bool = False
    aim_bytes: int | None = None
    seen_bytes: int = 0
    cold: bool = False
    crowded: int = 0
    stays: bool = False
    few: int = 0

    @property
    def present(self) -> StepPlan:
        assert self.plan is not None
        return self.plan


class Planner:
    """The plans of one model for one budget, by batch layout. Costs and rates measured for one layout are
    used for the next. With ``wait=False`` training begins with the first schedule that fits, while a better
    plan is sought for one layout at a time. ``phases``: shared with earlier phases of the same training."""

    def __init__(self, subject: StepSubject, request: PlanRequest, phases: Phases | None = None) -> None:
        self._subject, self.request = subject, request
        self._phases = phases or Phases()
        self._limit = RisingLimit(request, self._phases)
        self._layouts: defaultdict[Key, _LayoutState] = defaultdict(_LayoutState)
        self._memory = PlanMemory(request)
        self._rate: float | None = None
        self._last: Schedule | None = None
        self._learned: Learned | None = None
        self._better: Improvement | None = None  # the search for a better plan beside training

    @property
    def allowed_bytes(self) -> int | None:
        """What the allocator may hold; None until a first step has set the limit of a share."""
        return None if self._limit.now is None else self._limit.now.bytes

    @property
    def plans(self) -> list[StepPlan]:
        return [state.plan for state in self._layouts.values() if state.plan is not None]

    def planned(self, layout: BatchLayout) -> StepPlan | None:
        return self._layouts[layout.key].plan

    def plan(self, layout: BatchLayout, tensors: Sequence[tf.Tensor], *, at_once: bool = False) -> StepPlan:
        """Return the plan for ``layout``; if there is none, make it by measuring steps on ``tensors``.
        ``at_once``: training waits for the plan. With ``wait=False`` it is then the first schedule that fits;
        later calls measure better ones. If planning fails, the step trains as before.
        """
        early = at_once and not self.request.wait
        self._go_on(layout, tensors, early)
        state = self._layouts[layout.key]
        found, earlier = state.plan, state.plan
        if state.few and _elements(tensors) >= 2 * state.few:
            found = None
        if found is None:
            # A step a little over the budget is better than none.
            begun = state.exceeding is not None
            with self.request.progress() as report, only_newer_garbage():
                found = planned(
                    lambda: self._kept(self._within_limit(layout, tensors, report, early)),
                    lambda error: self._without_plan(layout, error),
                    OnMiss.CLOSEST if begun else self.request.on_miss,
                    example=not at_once and not begun,
                )
            state.plan = found
            if earlier is None or found.step is not None:
                tell_plan(self.request, layout, found.sentence)
        return found

    def plan_for_larger(self, layout: BatchLayout, tensors: Sequence[tf.Tensor]) -> None:
        """Plan again on the batch that took the plan of ``layout`` over the budget, if sizes depend on it."""
        earlier = self._layouts[layout.key].exceeding
        if earlier is not None and earlier.step is not None and earlier.step.folded.traced.sizes_seen:
            self.plan(layout, tensors, at_once=True)

    def give_up(self, layouts: Sequence[BatchLayout], error: CheckmateError) -> None:
        """Train ``layouts`` without schedules, because TensorFlow rejected them (``error``)."""
        for layout in distinct(layouts):
            state = self._layouts[layout.key]
            if state.present.schedule is not None:
                state.exceeding = None
                state.plan = self._without_plan(layout, error)
                self.request.tell(state.plan.sentence)

    def _without_plan(self, layout: BatchLayout, error: CheckmateError) -> StepPlan:
        self._seek_no_better(layout.key)
        earlier = self._layouts[layout.key].exceeding
        if earlier is not None:
            then = "The earlier plan is kept."
            said = f"{layout.describe()}: {unplanned(error, 'no other plan', then)}"
            return self._kept(self._kept_over_budget(earlier, said))
        return StepPlan(layout, None, None, 0, f"{layout.describe()}: {unplanned(error)}")

    def _as_seen(self, plan: StepPlan) -> StepPlan:
        """Return ``plan`` with the observed excess over the budget, which is then not reported again."""
        assert self.allowed_bytes is not None  # the plan exceeded it
        over = self._layouts[plan.layout.key].seen_bytes - self.allowed_bytes
        return dataclasses.replace(plan, over_bytes=max(plan.over_bytes, over))

    def _kept(self, plan: StepPlan) -> StepPlan:
        if self._limit.now is not None:
            self._memory.keep(plan, self._limit.now)
        return plan

    def _go_on(self, layout: BatchLayout, tensors: Sequence[tf.Tensor], at_once: bool) -> None:
        """Go on with the search for a better plan: measure what was solved since the last batch. If another
        layout has to be planned, finish the search first."""
        better = self._better
        if better is None:
            return
        between_batches = at_once and better.layout.key == layout.key
        if between_batches and better.resting:
            better.begin(tensors)
        if between_batches and not better.solved:
            return
        if better.layout.key != layout.key and self.planned(layout) is not None:
            return
        self._improve(better, (lambda _: better.go_on(tensors)) if between_batches else better.finish)

    def _improve(
        self, better: Improvement, measure: Callable[[Report], None], *, ended: bool = False
    ) -> None:
        """Let ``better`` measure; use its best plan if the search is over or training has ``ended``."""
        self._better = None  # set again below; an interrupt ends the search

        def improve() -> None:
            mark = Mark(meter_of(better.search.trials.graph))
            try:
                with only_newer_garbage(), self.request.progress() as report:
                    measure(report)
            finally:
                mark.start_anew_over(better.search.limit.bytes)
            key = better.layout.key
            if better.over or (ended and better.search.chosen().steps != self._layouts[key].present.steps):
                self._change(better.search)
            self._better = None if better.over else better

        def stop(error: CheckmateError) -> None:
            better.stop()
            what = f"{better.layout.describe()}: no better schedule is sought any longer"
            self.request.tell(unplanned(error, what, "The present plan is kept."))

        planned(improve, stop, OnMiss.CLOSEST)

    def _change(self, search: PlanSearch) -> None:
        """Train by the best plan of ``search`` from now on."""
        plan, key = search.chosen(), search.trials.step.layout.key
        before = self._layouts[key].present
        self._learn(search.trials)
        name = "" if search.trials.short else self._memory.name(key)
        plan = dataclasses.replace(plan, name=name, small_chunks=before.small_chunks)
        self._memory.note(search)
        if (plan.steps, plan.in_turn) == (before.steps, before.in_turn):  # keep the compiled function
            plan = dataclasses.replace(plan, step=before.step, schedule=before.schedule, ready=before.ready)
        self._layouts[key].plan = self._kept(plan)
        self._last = plan.schedule or self._last
        tell_plan(self.request, plan.layout, plan.sentence)

    def end(self, *, well: bool) -> None:
        """Stop the solve beside training, because training ended. If it ended ``well``, measure what the
        solver has found; the search goes on if training does."""
        better = self._better
        if better is None:
            return
        if not well:
            better.stop()
            return
        self._improve(better, better.rest, ended=True)

    def exceeded(self, layout: BatchLayout, peak_bytes: int) -> None:
        """Correct the plan of ``layout``, which reached ``peak_bytes``, over the budget.

        A first small excess is corrected by a new plan with a lower limit. Otherwise the ops run one after
        another from now on; if they do already, a new plan gets a lower limit. After a few such corrections,
        each of which costs a search, or if none was found before, the plan stays.
        """
        assert self.allowed_bytes is not None
        state = self._layouts[layout.key]
        self._seek_no_better(layout.key)
        limit = self.allowed_bytes if state.aim_bytes is None else state.aim_bytes
        spent = limit < self.allowed_bytes * 0.9**_CORRECTIONS or state.present.over_bytes > 0
        # A slightly smaller schedule costs less time per step than running ops one after another.
        little = peak_bytes <= APART * self.allowed_bytes and state.aim_bytes is None
        turns = None if little and not spent else _in_turn(state.present)
        what = "the plan is kept" if spent else "looking for a schedule that takes less"
        self.request.tell(
            f"{layout.describe()}: the allocator held {format_bytes(peak_bytes)}, over the budget of "
            f"{format_bytes(self.allowed_bytes)}; "
            f"{what if turns is None else 'the same ops run one after another from now on'}"
        )
        if turns is not None:
            state.plan = turns
            assert self._limit.now is not None
            self._memory.takes_turns(turns, self._limit.now)
            return
        self._memory.seen_over(state.present, peak_bytes)
        state.seen_bytes = max(peak_bytes, state.seen_bytes)
        if spent:
            state.plan = self._as_seen(state.present)
        else:
            state.aim_bytes = int(limit * max(0.85, min(0.97, self.allowed_bytes / peak_bytes)))
            self._set_aside(layout.key)

    def crowded(self, layout: BatchLayout, peak_bytes: int, others_bytes: int, more_bytes: int) -> bool:
        """Release the plan of ``layout``, to plan again, because other allocations took the allocator over
        the budget; return whether that was done. They hold ``others_bytes``, ``more_bytes`` more than
        foreseen.

        The plan stays, and the user is told once, if the budget is a share (which is of the step alone), if
        no schedule fits beside the others, or after a few corrections.
        """
        key, state = layout.key, self._layouts[layout.key]
        plan = state.present
        assert self.allowed_bytes is not None and plan.step is not None
        hopeless = self.allowed_bytes - others_bytes <= self.request.solver.bound_bytes(plan.step.graph)
        of_its_own = self.request.budget.share is not None
        stays = of_its_own or hopeless or plan.over_bytes > 0 or state.crowded >= _CORRECTIONS
        if not stays or not state.stays:
            peak, budget = format_bytes_apart(peak_bytes, self.allowed_bytes)
            what = "the step itself keeps to its plan" if stays else "planning again for what they leave"
            self.request.tell(
                f"{layout.describe()}: the allocator held {peak} of {budget}, because others hold "
                f"{format_bytes(more_bytes)} more than was foreseen; {what}"
            )
        if stays:
            state.stays = True
            return False
        state.seen_bytes = max(peak_bytes, state.seen_bytes)
        state.crowded += 1
        self._phases.beside[key] = max(others_bytes, self._phases.beside.get(key, 0))
        self._seek_no_better(key)
        self._set_aside(key)
        return True

    def _set_aside(self, key: Key) -> None:
        """Release the present plan's function before planning again, or its constants would count as other
        allocations."""
        state = self._layouts[key]
        state.exceeding, state.plan = dataclasses.replace(state.present, ready=None), None

    def _seek_no_better(self, key: Key) -> None:
        if self._better is not None and self._better.layout.key == key:
            self._better.stop()
            self._better = None

    def watched_bytes(self, layout: BatchLayout) -> int | None:
        """The bytes above which the allocator's peak is reported: the budget, or somewhat more than the known
        peak of a plan that exceeds it. None for a plain step with a budget of 100 % or more."""
        plan, share = self.planned(layout), self.request.budget.share
        if plan is None:
            return self.allowed_bytes
        all_given = plan.keeps_all and share is not None and share >= 1
        if all_given or self.allowed_bytes is None:
            return None
        over = int(_FURTHER * (self.allowed_bytes + plan.over_bytes)) if plan.over_bytes else 0
        return max(over, self.allowed_bytes + plan.came_bytes)

    def warmed_up(self, layout: BatchLayout) -> bool:
        """Note that the plan of ``layout`` ran. Return whether that run only warmed it up: the first run of a
        plan from an earlier run, on a GPU."""
        state = self._layouts[layout.key]
        plan, cold, state.cold = state.plan, state.cold, False
        if not cold or plan is None or plan.step is None:
            return False
        return warms_up(plan.step.graph.device_kind)

    def _within_limit(
        self, layout: BatchLayout, tensors: Sequence[tf.Tensor], report: Report, at_once: bool
    ) -> StepPlan:
        earlier = self._layouts[layout.key].exceeding
        plan = self._make(layout, tensors, report, at_once and earlier is None)
        if earlier is None or not plan.over_bytes:
            return plan
        if plan.peak_bytes - plan.held_bytes >= earlier.peak_bytes - earlier.held_bytes:
            why = f"{layout.describe()}: nothing that takes less was found; the earlier plan is kept"
            return self._kept_over_budget(earlier, why)
        assert self.allowed_bytes is not None  # the earlier plan exceeded it
        over = max(0, plan.peak_bytes - self.allowed_bytes)  # the search's limit was below the budget
        return dataclasses.replace(plan, over_bytes=over)

    def _kept_over_budget(self, plan: StepPlan, sentence: str) -> StepPlan:
        """Return ``plan``, marked as exceeding the budget and kept for later runs, which need no search
        then."""
        plan = self._as_seen(plan)
        return dataclasses.replace(plan, sentence=sentence, name=self._memory.name(plan.layout.key))

    def _make(
        self, layout: BatchLayout, tensors: Sequence[tf.Tensor], report: Report, at_once: bool
    ) -> StepPlan:
        report(Progress("trace", message=f"tracing the training step, {layout.describe()}"))
        layout.require_plannable()
        state = self._layouts[layout.key]
        state.few = 0
        try:
            step = self._subject.trace(layout, tensors)
        except OnlySmallTensorsError:
            if not all(spec.shape.is_fully_defined() for spec in layout.specs):
                state.few = _elements(tensors)
            sentence = f"{layout.describe()}: nothing big enough to recompute; it trains as before"
            return StepPlan(layout, None, None, 0, sentence)
        for note in step.folded.traced.notes if all(plan.step is None for plan in self.plans) else ():
            self.request.tell(note)
        gc.collect()  # garbage on the device would count as other allocations
        small_chunks = SmallChunks(step.folded.structure)
        trials, kept, plan = self._trials(step, tensors, report), self._memory.of(step), None
        if kept is not None:
            recall(trials, kept)
            plan = self._from_before(trials, kept, small_chunks)
            if not self._memory.knows(step):
                small_chunks, trials = SmallChunks(step.folded.structure), self._trials(step, tensors, report)
        if plan is None:
            plan, lasting = self._searched(trials, small_chunks, at_once)
            plan = dataclasses.replace(plan, name=self._memory.name_of(step) if lasting else "")
        self._last = plan.schedule or self._last
        return plan if plan.schedule is None else dataclasses.replace(plan, small_chunks=small_chunks)

    def _trials(self, step: LiveStep, tensors: Sequence[tf.Tensor], report: Report) -> Trials:
        key = step.layout.key
        beside, ran = self._phases.beside.get(key, 0), self._layouts[key].plain_ran
        return Trials(step, tensors, self._rate, report, self._learned, beside, plain_ran=ran)

    def _measured_again(
        self, search: PlanSearch, plan: StepPlan, small_chunks: SmallChunks
    ) -> StepPlan | None:
        """Measure a kept plan in this process; return None if it takes too much. The allocator is prepared as
        when the plan was made, because in another region buffers get other addresses, and the peak
        differs."""
        if plan.schedule is None:
            return plan
        step = search.trials.step
        mark = Mark(meter_of(step.graph))
        try:
            fetch_region(step.graph, step.everything, most=self.request.budget.bytes_)
            small_chunks.make()
            settle(step.folded.traced.variables)
            found = measured_again(search, plan)
        finally:
            mark.start_anew_over(search.limit.bytes)
        if isinstance(found, StepPlan):
            return found
        self._memory.was_wrong(step)
        if self._layouts[step.layout.key].exceeding is None:  # else the user knows why it is planned again
            self.request.tell(found)
        return None

    def _from_before(self, trials: Trials, kept: KeptPlan, small_chunks: SmallChunks) -> StepPlan | None:
        """Return a plan from those that an earlier run measured; None if a search is needed."""
        key, limit = trials.step.layout.key, self._limit.now
        state = self._layouts[key]
        tells = self._limit.tells(trials.step)
        if tells:
            told = known_limit(kept, self.request, trials)
            limit = None if told is None else self._limit.would_be(told, trials.plain)
        if limit is None:
            return None
        search = PlanSearch(trials, limit, self.request, state.aim_bytes)
        plan = known_plan(search, kept)
        if plan is None and state.exceeding is None:
            self.request.tell(why_searched(search, kept))
        plan = plan and self._measured_again(search, plan, small_chunks)
        if plan is None:
            return None
        if tells:
            self._on_limit(self._limit.told(trials.step, limit, trials.plain))
        self._learn(trials)
        if state.exceeding is not None:  # store the plan again, with what training showed
            return dataclasses.replace(plan, name=self._memory.name_of(trials.step))
        self._memory.uses_kept(trials.step)
        state.cold = True
        return plan

    def _searched(self, trials: Trials, small_chunks: SmallChunks, at_once: bool) -> tuple[StepPlan, bool]:
        """Solve and measure. Also return whether later runs may use the plan: not if its search goes on, or
        was decided by a temporary shortage of memory."""
        step = trials.step
        mark = Mark(meter_of(step.graph))
        try:
            fetch_region(step.graph, step.everything, most=self.request.budget.bytes_)
            if self.request.budget.share is not None:
                self._set_limit(trials)  # measures the plain step, so before chunks are set aside
            small_chunks.make()
            settle(step.folded.traced.variables)
            self._set_limit(trials)
            assert self._limit.now is not None
            aim = self._layouts[step.layout.key].aim_bytes
            search = PlanSearch(trials, self._limit.now, self.request, aim)
            plan = search.plain() or search.again(self._last) or search.first()
            if plan is None:
                # No search beside training on several replicas: it runs on one, and the others would wait.
                plan = self._best(search, trials.tensors, at_once=at_once and not step.distributed)
        finally:
            if self.allowed_bytes is not None:
                mark.start_anew_over(self.allowed_bytes)
        self._learn(trials)
        self._memory.note(search)
        return plan, self._better is None and not trials.short

    def _set_limit(self, trials: Trials) -> None:
        """Let this step set the limit, if the budget is a share and no larger step has set it."""
        if self._limit.tells(trials.step):
            limit = limit_of(self.request, trials)
            self._on_limit(self._limit.told(trials.step, limit, trials.plain))

    def _on_limit(self, rose: bool) -> None:
        """If the limit ``rose``, layouts whose plain step fits now train plainly."""
        for key, state in self._layouts.items() if rose else ():
            plan, peak = state.plan, state.plain_bytes
            if plan is None or plan.schedule is None or peak is None or peak > (self.allowed_bytes or 0):
                continue
            self._seek_no_better(key)
            sentence = (
                f"{plan.layout.describe()}: plain training, without recomputation, from now on: it fits what "
                "a larger batch may hold"
            )
            state.plan = dataclasses.replace(
                plan,
                schedule=None if plan.step is None else plan.step.unscheduled,
                peak_bytes=peak,
                over_bytes=0,
                small_chunks=None,
                name="",
                sentence=sentence,
                ready=None,
            )
            self.request.tell(sentence)

    def _best(self, search: PlanSearch, tensors: Sequence[tf.Tensor], *, at_once: bool) -> StepPlan:
        """Return the best plan; with ``at_once`` the first that fits, and the search goes on beside
        training."""
        better = Improvement(search)
        better.go_on_until(lambda: at_once and search.fitted)
        if better.over:
            return search.chosen()
        self._better = better
        better.begin(tensors)
        return search.so_far()

    def _learn(self, trials: Trials) -> None:
        self._layouts[trials.step.layout.key].plain_ran = trials.plain_ran
        if trials.plain is not None and trials.plain.measured:
            self._layouts[trials.step.layout.key].plain_bytes = trials.plain.peak_bytes
        if trials.known:
            self._rate = max(trials.rate, self._rate or 1.0)
        self._learned = trials.learned or self._learned


def _in_turn(plan: StepPlan) -> StepPlan | None:
    """Return ``plan`` with its ops one after another; None if they run so already."""
    step, schedule = plan.step, plan.schedule
    if step is None or schedule is None or not step.runs_side_by_side(schedule):
        return None
    again = Schedule.of(step.graph, schedule.steps)  # a new object, so that a new function is compiled
    return dataclasses.replace(plan, step=step.in_turn, schedule=again, ready=None)


def _elements(tensors: Sequence[tf.Tensor]) -> int:
    return sum(tensor.shape.num_elements() or 0 for tensor in tensors)


def distinct(layouts: Sequence[BatchLayout]) -> Iterable[BatchLayout]:
    return {layout.key: layout for layout in layouts}.values()
