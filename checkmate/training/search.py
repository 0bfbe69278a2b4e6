"""Search for one layout's plan: solve, run, look at the allocator, and correct.

The rate of allocated to requested bytes is taken from the model's own steps, cautiously at first, so that
looking for a schedule does not itself leave the budget.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator

from checkmate.errors import NoScheduleError
from checkmate.ir import Schedule, SolveResult, SolveStatus
from checkmate.memory.check import check
from checkmate.memory.simulate import simulate
from checkmate.planning.aim import Aim, Reading
from checkmate.planning.plan_request import PlanRequest, SolveRequest
from checkmate.planning.solving import Minimum
from checkmate.progress import Progress
from checkmate.request import OnMiss
from checkmate.training.limit import Limit
from checkmate.training.plan import FIRST_RATE, HEADROOM, StepPlan, foreseen
from checkmate.training.trials import Trials, TriedStep
from checkmate.training.wording import impossible, measured_overhead, nothing_to_save, sentence_of, what_runs
from checkmate.units import format_bytes, format_bytes_apart

_ATTEMPTS, _ATTEMPTS_CARRIED = 8, 3  # the second if op costs are known from another layout or run
_QUICK_S = 3.0
_MORE_S = 6.0  # for each solve once a schedule fits
_ALIKE = 0.01  # of the budget: if no peak fits, the cheapest schedule within this of the closest is taken
_HARDLY = 0.05  # of the plain step's peak: if no schedule fits or saves more, the plain step trains
_SAME = 1e-9  # of the step's cost: rounding, in sums of the same costs in another order
_NOTHING = 0.99  # of keep-everything: if the bound is above this, no schedule helps
_OVER = 1.15  # of the budget: the assumed need of a step that the device has no memory for


class PlanSearch:
    """A search for one layout's plan within ``limit``; within ``aim``, fewer bytes, if earlier plans exceeded
    it.

    ``plain``, ``again`` and ``first`` may give the plan at once. Otherwise ``corrections`` asks for schedules
    and measures them, and ``chosen`` is the best of all that was tried. ``cautious``: leave room for other
    allocations to come and for the allocator's varying peak; given up if nothing fits then. ``least``: the
    least memory, once it was asked for. ``proved``: it is proved that every schedule requests more than the
    budget."""

    def __init__(self, trials: Trials, limit: Limit, request: PlanRequest, aim: int | None = None) -> None:
        self.trials, self.limit, self.request = trials, limit, request
        self.allowed = limit.bytes if aim is None else aim
        self.cautious = True
        self.least: Minimum | None = None
        self.proved = False
        self._begun: TriedStep | None = None  # the first schedule's measurement
        self._came = 0  # by how much other allocations grew after the limit of a share was set

    @property
    def around(self) -> int:
        return foreseen(self.trials.step, self.trials.held)

    @property
    def room(self) -> int:
        """The bytes that the step alone may take, as measured."""
        if self.cautious:
            return int(self.allowed * HEADROOM) - self.around
        return self.allowed - self.trials.held

    def fits(self, tried: TriedStep) -> bool:
        return tried.ran and tried.own_bytes <= self.room

    def come_since(self, tried: TriedStep) -> int:
        """By how much other allocations, such as a data set's, have grown since the limit of a share was set;
        0 for a budget in bytes, where they count."""
        return 0 if self.request.budget.share is None else max(0, tried.others_bytes - self.limit.others)

    def leave_room(self, more: int) -> None:
        """Raise the limit by ``more`` bytes, which other allocations hold."""
        self._came += more
        self.limit = self.limit.beside(more)
        self.allowed += more

    def plain(self) -> StepPlan | None:
        """Return the plain plan if its measured peak fits. It needs no spare room, since training is
        watched."""
        tried = self.trials.plain
        if tried is None and self.trials.everything <= self._target(self.trials.rate):
            tried = self.trials.run_plain(", which should fit")
        if tried is not None and tried.peak_bytes > self.allowed:
            return self._nothing_to_save(tried)
        return None if tried is None else self.plan_of(tried, self._as_it_is)

    @property
    def _as_it_is(self) -> str:
        before = self.trials.step.unscheduled is None
        return f"it fits, and trains {'as before' if before else 'without recomputation'}"

    def _nothing_to_save(self, plain: TriedStep) -> StepPlan | None:
        """Return the plain plan, although over the budget, if no schedule can request notably less."""
        share = self.request.budget.share
        if share is None or not plain.measured or self.request.on_miss is OnMiss.RAISE:
            return None
        bound = self.request.solver.bound_bytes(self.trials.step.graph)
        if bound < _NOTHING * self.trials.everything:
            return None
        sentence = nothing_to_save(self.trials, plain, self.limit, bound)
        return dataclasses.replace(self.plan_of(plain), sentence=sentence)

    def again(self, schedule: Schedule | None) -> StepPlan | None:
        """Return the plan with another layout's schedule, if it fits this graph and budget."""
        if schedule is None:
            return None
        graph, steps = self.trials.graph, schedule.steps.tolist()
        # The other layout's graph may differ: small tensors are not scheduled.
        if not check(graph, steps, budget_bytes=self._target(self.trials.rate)).ok:
            return None
        earlier = Schedule.of(graph, steps)
        tried = self._known(earlier) or self._run(earlier, "an earlier schedule")
        if not self.fits(tried):
            return None
        return self.plan_of(tried, f"{what_runs(self.trials, tried)} (an earlier schedule fits)")

    def first(self) -> StepPlan | None:
        """Run a first schedule, solved for on operation counts; return the plain plan if that fits."""
        schedule = self._first()
        self._begun = self._known(schedule) or self.trials.run(schedule, "a first schedule")
        if self.trials.everything * self.trials.rate <= self.room:  # by the rate measured just now
            plain = self.trials.run_plain(", which may fit")
            if plain is not None and plain.peak_bytes <= self.allowed:
                return self.plan_of(plain, self._as_it_is)
        return None

    def corrections(self) -> Generator[SolveRequest, SolveResult, None]:
        """Ask for schedules by the costs measured with the first one, and measure them, until one uses nearly
        all of the budget, the cost can hardly fall, or attempts are used up. Last, time the plain step, if it
        was not timed before."""
        yield from self._corrections()
        self.trials.time_plain()

    def _corrections(self) -> Generator[SolveRequest, SolveResult, None]:
        first = self._begun
        if first is None or self.least is not None:
            return
        trials = self.trials
        target, base = self._target(trials.rate), trials.graph.base_cost
        aim = Aim(self.room, target, rate=trials.rate, base_cost=base)
        # A first schedule by operation counts may be expensive although it uses the budget, so it ends
        # nothing.
        if trials.carried or not self.fits(first):
            aim.took(self._shot(first, first.requested_bytes(trials.graph)))
        for attempt in range(1, self._attempts + 1):
            if aim.settled and (attempt > 1 or trials.carried):
                break
            seconds = _MORE_S if self.fitted or trials.carried else None
            result = yield self._ask(aim.target, self._start(aim.target), seconds, self._progress(attempt))
            if result.schedule is None:
                aim.found_nothing()
                continue
            tried = self._known(result.schedule) or self._run(result.schedule, f"attempt {attempt}")
            aim.took(self._shot(tried, aim.target))

    def chosen(self) -> StepPlan:
        """Return the best plan of all that was tried; if nothing fits, also try the schedule of least
        memory."""
        if not self._keeps:
            schedule = self._find_least().schedule
            if self._known(schedule) is None:
                self.trials.run(schedule, "the least memory that is known")
            if not self._keeps and (closest := self._closest) is not None:
                schedule = closest.on(self.trials.step.graph)
                if self.trials.take_turns(schedule):
                    self._run(schedule, "one op after another")
        return self.plan_of(self.trials.time_again(self._best))

    def best_known(self) -> StepPlan:
        """Return the cheapest tried plan that fits, else the one whose peak is closest, which may still fit
        without spare room. Errors are those of ``chosen``."""
        return self.plan_of(self._best)

    @property
    def _best(self) -> TriedStep:
        fitting = self.best_fitting()
        if fitting is not None:
            return fitting
        closest = self._closest
        if closest is None:
            raise self._impossible(None)
        if closest.peak_bytes > self.allowed:
            alike = closest.peak_bytes + _ALIKE * self.allowed
            near = (each for each in self.trials.all if each.ran and each.peak_bytes <= alike)
            closest = min(near, key=self.trials.cost)
            if self.request.on_miss is OnMiss.RAISE:
                raise self._impossible(closest)
            plain = self.trials.plain
            if plain is not None and closest.own_bytes > (1 - _HARDLY) * plain.least_own_bytes:
                closest = plain
        return closest

    @property
    def _keeps(self) -> bool:
        """Whether the measured peak of anything tried is within the budget."""
        return any(each.ran and each.peak_bytes <= self.allowed for each in self.trials.all)

    @property
    def _closest(self) -> TriedStep | None:
        ran = (each for each in self.trials.all if each.ran)
        return min(ran, key=lambda each: each.peak_bytes, default=None)

    @property
    def fitted(self) -> bool:
        return self.best_fitting() is not None

    def so_far(self) -> StepPlan:
        """Return the cheapest plan that fits so far; its sentence says that the search goes on."""
        fitting = self.best_fitting()
        assert fitting is not None
        plan = self.plan_of(fitting)
        peak, budget = format_bytes_apart(plan.peak_bytes, self.allowed)
        begun = f"training begins with {what_runs(self.trials, fitting)}, peak {peak} of {budget}"
        sentence = f"{plan.layout.describe()}: {begun}; a better schedule is sought meanwhile"
        return dataclasses.replace(plan, sentence=sentence)

    def best_fitting(self) -> TriedStep | None:
        fitting = [each for each in self.trials.all if self.fits(each)]
        # The plain step first: a schedule without recomputation costs as much by the graph, but takes longer.
        plainly = (each for each in fitting if each.schedule is None)
        return next(plainly, None) or min(fitting, key=self.trials.cost, default=None)

    @property
    def _attempts(self) -> int:
        return _ATTEMPTS_CARRIED if self.trials.carried else _ATTEMPTS

    def _shot(self, tried: TriedStep, target: int) -> Reading:
        own = tried.own_bytes if tried.ran else int(_OVER * self.allowed) - self.trials.held
        requested = tried.requested_bytes(self.trials.graph)
        return Reading(target, requested, own, self.trials.cost(tried))

    def _known(self, schedule: Schedule) -> TriedStep | None:
        """Return the measurement of ``schedule``, or of one with the same peak and cost; None: there is
        none."""
        graph = self.trials.graph
        new = simulate(graph, schedule)
        for each in self.trials.all:
            old = simulate(graph, each.on(graph))
            alike = abs(old.cost - new.cost) <= _SAME * graph.base_cost and old.peak_bytes == new.peak_bytes
            if each.schedule is not None and alike:
                return each
        return None

    def _start(self, target: int) -> Schedule | None:
        graph = self.trials.graph
        fitting = [each for each in self.trials.all if each.requested_bytes(graph) <= target]
        return min(fitting, key=self.trials.cost).on(graph) if fitting else None

    def _progress(self, attempt: int) -> str:
        count = f"attempt {attempt} of at most {self._attempts}"
        best = self.best_fitting()
        if best is None:
            return count
        return (
            f"{count}; so far {format_bytes(best.peak_bytes)} of {format_bytes(self.allowed)} are used, "
            f"{what_runs(self.trials, best)}"
        )

    def _first(self) -> Schedule:
        # With rate and caution the target may be below the minimum; then solve for the budget itself.
        rate = self.trials.rate if self.trials.known_of_schedules else max(FIRST_RATE, self.trials.rate)
        known = "what is known of its ops" if self.trials.carried else "operation counts"
        for tried_rate, self.cautious in ((rate, True), (rate, False), (1.0, False)):
            target = self._target(tried_rate)
            asked = self._ask(target, None, _QUICK_S, f"on {known}")
            result = self.request.answer(asked, self.trials.report)
            if result.schedule is not None:
                return result.schedule
        self.proved = result.status is SolveStatus.INFEASIBLE and not result.assumptions
        schedule = self._find_least().schedule
        if self.proved and self.request.on_miss is OnMiss.RAISE:
            raise self._impossible(None)
        return schedule

    def _find_least(self) -> Minimum:
        self.trials.report(Progress("solve", message="solving for the least memory"))
        found = self.request.solver_for(self.trials.report).minimum(self.trials.graph)
        # The first bound stays: a later one is for sizes that were changed by measurements.
        self.least = found if self.least is None else dataclasses.replace(self.least, schedule=found.schedule)
        return self.least

    def _target(self, rate: float) -> int:
        """Return the bytes that a schedule may request so that the allocator stays within the budget."""
        return int(self.room / rate)

    def _run(self, schedule: Schedule, what: str) -> TriedStep:
        return self.trials.run(schedule, what, within=self.allowed)

    def _ask(self, target: int, start: Schedule | None, seconds: float | None, what: str) -> SolveRequest:
        graph = self.trials.graph
        self.trials.report(Progress("solve", message=f"solving for {format_bytes(target)} ({what})"))
        if start is not None:
            start = Schedule.of(graph, start.steps.tolist())
        return SolveRequest(graph, target, start, seconds)

    def _impossible(self, closest: TriedStep | None) -> NoScheduleError:
        return impossible(self.trials, closest, self.allowed, self.least, proved=self.proved)

    def plan_of(self, tried: TriedStep, what: str = "") -> StepPlan:
        """Return the plan that trains by ``tried``; ``what``: a description of it."""
        trials = self.trials
        over = max(0, tried.peak_bytes - self.allowed)
        proof = self.least if self.proved else None
        sentence = sentence_of(trials, tried, self.limit, proof, what or what_runs(trials, tried))
        return StepPlan(
            trials.step.layout,
            trials.way(in_turn=tried.in_turn),
            trials.step.unscheduled if tried.schedule is None else tried.on(trials.step.graph),
            tried.peak_bytes,
            sentence,
            over,
            tried.others_bytes,
            self.around,
            measured=tried.measured,
            constant_bytes=tried.found.constant_bytes,
            came_bytes=self._came,
            overhead=measured_overhead(trials, tried),
        )
