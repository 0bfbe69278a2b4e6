"""Run a step in several ways, and remember what was measured: costs and scratch of ops, and peaks."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from checkmate.backends.tf.allocator.learn import with_workspace
from checkmate.backends.tf.devices import has_meter
from checkmate.backends.tf.live.elsewhere import measure_elsewhere
from checkmate.backends.tf.live.measure import (
    OutOfMemoryError,
    PeakSource,
    ReadyStep,
    StepMeasurement,
    measure_plain,
    measure_scheduled,
    seconds_of_both,
)
from checkmate.backends.tf.live.trace import LiveStep
from checkmate.backends.tf.memory_check import require_room
from checkmate.errors import CycleError, ProfileError, StepTooLargeError
from checkmate.ir import Graph, Schedule
from checkmate.memory.simulate import simulate
from checkmate.planning.metered import APART
from checkmate.progress import Progress, Report
from checkmate.training.neighbour import Learned, carried_over, with_measured
from checkmate.training.plan import FIRST_RATE, held_by_others, meter_of
from checkmate.units import format_bytes


@dataclass(frozen=True, eq=False)
class TriedStep:
    """A way to run the step, and its measurement. ``schedule``: None for the plain step. ``others_bytes``:
    held by other allocations during it. ``in_turn``: ops ran one after another."""

    schedule: Schedule | None
    found: StepMeasurement
    others_bytes: int
    in_turn: bool = False

    @property
    def steps(self) -> tuple[int, ...] | None:
        return None if self.schedule is None else tuple(self.schedule.steps.tolist())

    @property
    def own_bytes(self) -> int:
        return self.peak_bytes - self.others_bytes

    @property
    def peak_bytes(self) -> int:
        return self.found.peak_bytes

    @property
    def least_bytes(self) -> int:
        """The lowest peak of its runs."""
        return self.found.least_bytes or self.peak_bytes

    @property
    def least_own_bytes(self) -> int:
        return self.least_bytes - self.others_bytes

    @property
    def ran(self) -> bool:
        """Whether the device had the memory to run it."""
        return self.found.source is not PeakSource.EXHAUSTED

    @property
    def measured(self) -> bool:
        """Whether the peak was read off a meter."""
        return self.ran and self.found.source is not PeakSource.PREDICTED and self.peak_bytes > 0

    def on(self, graph: Graph) -> Schedule:
        return Schedule.plain(graph) if self.schedule is None else Schedule.of(graph, self.schedule.steps)

    def cost(self, graph: Graph) -> float:
        return simulate(graph, self.on(graph)).cost

    def requested_bytes(self, graph: Graph) -> int:
        return simulate(graph, self.on(graph)).peak_bytes


class Trials:
    """Runs one layout's step in several ways, and collects the measurements.

    ``graph``: the step's graph, with measured costs and scratch. ``rate``: allocated bytes per requested
    byte; ``known``: whether it was measured. ``others``: bytes of other allocations now, at least ``beside``,
    which they held in training; ``held``: the most that they were seen to hold. ``metered``: this process has
    a memory meter. ``all``: everything tried, in order. ``carried``: costs are known from an earlier run or
    another layout. ``ready``: the last step that ran, if it was to be kept. ``as_written``: the plain step
    with the user's own recomputation, once measured. ``in_turn``: ops run one after another from now on.
    ``plain_ran``: the plain step ran in this process, so it can run again without taking more memory from the
    system.
    """

    def __init__(
        self,
        step: LiveStep,
        tensors: Sequence[tf.Tensor],
        rate: float | None,
        report: Report,
        learned: Learned | None = None,
        beside: int = 0,
        *,
        plain_ran: bool = False,
    ) -> None:
        self.step, self.tensors, self.report = step, tensors, report
        carried = None if learned is None else carried_over(learned, step.graph)
        self.carried = carried is not None
        self.graph = carried or step.graph
        self.rate, self.known = rate or FIRST_RATE, rate is not None
        self.others = max(beside, held_by_others(self.graph))
        self.held, self._beside = self.others, beside
        self.metered = has_meter(meter_of(self.graph))
        self.all: list[TriedStep] = []
        self.as_written: TriedStep | None = None
        self.why_not_plain = ""  # why the plain step could not be measured
        self.ready: ReadyStep | None = None
        self.in_turn, self.plain_ran = False, plain_ran
        self._costs_known, self._turns_tried = self.carried, False
        self._timed: TriedStep | None = None

    def recall(
        self, tried: Sequence[TriedStep], graph: Graph | None, rate: float | None, *, in_turn: bool = False
    ) -> None:
        """Add measurements of an earlier run. ``graph``: with measured costs, if known."""
        self.in_turn = in_turn
        self.all.extend(tried)
        self.held = max([self.held, *(each.others_bytes for each in tried)])
        if graph is not None:
            self.graph, self.carried, self._costs_known = graph, True, True
        if rate is not None:
            self.rate, self.known = rate, True

    @property
    def known_of_schedules(self) -> bool:
        """Whether ``rate`` was measured with a schedule, not with the plain step alone."""
        return (self.known and self.plain is None) or any(tried.schedule is not None for tried in self.all)

    @property
    def learned(self) -> Learned | None:
        """The measured costs of the ops; None if no schedule has run."""
        return Learned(self.step.graph, self.graph) if self._costs_known else None

    @property
    def short(self) -> bool:
        """Whether a temporary shortage (of memory, or of a fresh process to measure in) affected the results.
        A prediction in a process with a meter is for small tensors, and would be the same in any run."""
        return bool(self.why_not_plain) or any(
            not tried.ran or (tried.found.source is PeakSource.PREDICTED and not self.metered)
            for tried in self.all
        )

    @property
    def everything(self) -> int:
        """The bytes that keeping everything requests."""
        return simulate(self.step.graph, self.step.everything).peak_bytes

    @property
    def plain(self) -> TriedStep | None:
        return next((tried for tried in self.all if tried.schedule is None), None)

    def run_plain(self, what: str) -> TriedStep | None:
        """Measure the plain step, once; None where it cannot be run. ``why_not_plain`` then says why."""
        if self.plain is not None or self.why_not_plain:
            return self.plain
        self.report(Progress("measure", message=f"measuring the plain step{what}"))
        try:
            require_room(self.graph, Schedule.plain(self.graph))  # by the graph with measured scratch
            found = self._with_peak(measure_plain(self.step, self.tensors), None, self.everything, self.step)
        except (OutOfMemoryError, StepTooLargeError):
            self.why_not_plain = "it does not fit the device's memory"
            return None
        except ProfileError as error:
            self.why_not_plain = str(error)
            return None
        self._learn_rate(found, self.everything)
        self.plain_ran = True
        return self._remember(None, found)

    def time_plain(self) -> None:
        """If the plain step has not run in this process, measure it in a fresh one: TensorFlow's CPU
        allocator would keep its memory until this process ends."""
        if self.plain is not None or self.why_not_plain or self.graph.device_kind != "cpu":
            return
        try:
            require_room(self.graph, Schedule.plain(self.graph))
        except StepTooLargeError:
            return
        self.report(Progress("measure", message="measuring the plain step in a fresh process"))
        found = measure_elsewhere(self.step, None, self.tensors, self.report)
        if found is not None:
            peak = found.peak_bytes + (self.held if self.metered else 0)
            self.all.append(TriedStep(None, dataclasses.replace(found, peak_bytes=peak), self.held))

    def time_again(self, tried: TriedStep) -> TriedStep:
        """Time ``tried`` and the plain step alternately, if both ran in this process, so that other load on
        the machine affects both alike."""
        plain = self.plain
        ran = self.plain_ran and tried is not self._timed
        if plain is None or not ran or tried.schedule is None or not self.tensors:
            return tried
        self.report(Progress("measure", message="timing it and the plain step in turn"))
        ready = ReadyStep(self.way(in_turn=tried.in_turn), tried.schedule)
        seconds = seconds_of_both(ready, self.tensors)
        if seconds is None:
            return tried
        for each, took in zip((plain, tried), seconds, strict=True):
            timed = dataclasses.replace(each, found=dataclasses.replace(each.found, seconds=took))
            self.all[self.all.index(each)] = timed
        self._timed = timed
        return timed

    def run_as_written(self) -> TriedStep | None:
        """Measure the plain step with the user's own recomputation, once; None: it has none, or cannot be
        measured.
        """
        step = self.step.as_written
        if self.why_not_plain and self.graph.device_kind == "cpu":
            return None  # it has no room either, and running out of memory would end the process
        if self.as_written is None and step is not None:
            self.report(Progress("measure", message="measuring the step as it is written"))
            try:
                found = self._with_peak(measure_plain(step, self.tensors), None, 0, step)
            except ProfileError:
                return None
            if found.source is not PeakSource.PREDICTED:
                self.as_written = TriedStep(None, found, self._others(found))
        return self.as_written

    def run(
        self, schedule: Schedule, what: str, *, within: int | None = None, keep: bool = False
    ) -> TriedStep:
        """Measure the step with ``schedule``; the first run also measures the costs of ops. ``within``: stop
        at the first higher peak. ``keep``: keep its function in ``ready`` until the next run."""
        self.report(Progress("measure", message=f"measuring the scheduled step ({what})"))
        traced = Schedule.of(self.step.graph, schedule.steps.tolist())
        first, self.ready = not self._costs_known, None
        ready = ReadyStep(self.way(in_turn=self.in_turn), traced)
        try:
            found = measure_scheduled(ready, self.tensors, costs=first, within=within)
        except OutOfMemoryError:
            # On a device no larger than the budget, this is what being over the budget looks like.
            return self._remember(traced, StepMeasurement(0, 0, source=PeakSource.EXHAUSTED))
        except (CycleError, ProfileError) as error:
            if not any(each.ran for each in self.all):
                raise
            # Another schedule ran, so this failure must not end the user's script.
            self.report(Progress("measure", message=f"this schedule could not be run: {error}"))
            return self._remember(traced, StepMeasurement(0, 0, source=PeakSource.EXHAUSTED))
        if within is not None and found.peak_bytes > within and not self._turns_tried:
            ready, found = self._taking_turns(ready, found, within)
        if keep and ready.begins_anew:
            self.ready = ready
        found = self._with_peak(found, traced, self._requested(traced), ready.step)
        if first:
            if not self.metered and ready.step.runs_side_by_side(traced):
                alone = measure_elsewhere(self.step.in_turn, traced, self.tensors, self.report)
                found = found if alone is None else dataclasses.replace(found, workspace=alone.workspace)
            self._learn_costs(found)
        self._learn_rate(found, self._requested(traced))
        return self._remember(traced, found)

    def _taking_turns(
        self, ready: ReadyStep, found: StepMeasurement, within: int
    ) -> tuple[ReadyStep, StepMeasurement]:
        """Measure a step over ``within`` again, with its ops one after another. If that takes notably less,
        all further steps run so. This is tried only once."""
        if not ready.step.runs_side_by_side(ready.schedule):
            return ready, found
        self._turns_tried = True
        other = ReadyStep(self.step.in_turn, ready.schedule)
        less = measure_scheduled(other, self.tensors, costs=False, within=within)
        if not 0 < APART * less.peak_bytes < found.peak_bytes:
            return ready, found
        peak, beside = format_bytes(less.peak_bytes), format_bytes(found.peak_bytes)
        sentence = f"ops run one after another, because side by side they hold {beside}, not {peak}"
        self.report(Progress("measure", message=sentence))
        self.in_turn = True
        return other, less.with_costs_of(found)

    def take_turns(self, schedule: Schedule) -> bool:
        """Run ops one after another from now on; return whether that changes how ``schedule`` runs."""
        changes = self.way(in_turn=self.in_turn).runs_side_by_side(schedule)
        self.in_turn = True
        return changes

    def way(self, *, in_turn: bool) -> LiveStep:
        """Return the step with its ops one after another, or side by side where they may."""
        return self.step.in_turn if in_turn else self.step

    def cost(self, tried: TriedStep) -> float:
        return tried.cost(self.graph)

    def _requested(self, schedule: Schedule) -> int:
        return simulate(self.graph, Schedule.of(self.graph, schedule.steps)).peak_bytes

    def _remember(self, schedule: Schedule | None, found: StepMeasurement) -> TriedStep:
        others = self._others(found)
        more = max(0, self._beside - others) if self.metered and found.peak_bytes else 0
        if more:  # others will hold again what they held in training
            peak, least = found.peak_bytes + more, found.least_bytes and found.least_bytes + more
            found = dataclasses.replace(found, peak_bytes=peak, least_bytes=least)
        self.held = max(self.held, others + more)
        in_turn = self.in_turn and schedule is not None
        self.all.append(TriedStep(schedule, found, others + more, in_turn))
        return self.all[-1]

    def _others(self, found: StepMeasurement) -> int:
        """Return what other allocations held during ``found``: a data set prepares batches meanwhile."""
        if not self.metered or not found.held_bytes:
            return self.held
        return max(0, found.held_bytes - self.graph.fixed_bytes)

    def _learn_costs(self, found: StepMeasurement) -> None:
        self._costs_known = True
        if any(found.node_seconds):
            scratch = [op.workspace_bytes for op in self.graph.ops]
            self.graph = with_measured(self.graph, found.node_seconds, scratch)
        else:
            sentence = "the profiler saw no times of ops, so schedules are chosen by operation counts"
            self.report(Progress("measure", message=sentence))
        self.graph = with_workspace(self.graph, found.workspace, found.reserves, found.pieces)

    def _with_peak(
        self, found: StepMeasurement, schedule: Schedule | None, requested: int, step: LiveStep
    ) -> StepMeasurement:
        """Return ``found`` with a peak. If this process has no meter, it is measured in a fresh one; it is
        predicted if that is not possible, or if all tensors are too small for the meter."""
        if self.metered and found.peak_bytes:
            return found
        there = None
        if not self.metered:
            self.report(Progress("measure", message="measuring the step's memory in a fresh process"))
            there = measure_elsewhere(step, schedule, self.tensors, self.report)
        if there is not None:
            here = ("node_seconds", "seconds", "op_seconds")
            return dataclasses.replace(there, **{name: getattr(found, name) for name in here})
        # Small tensors come from another allocator than the metered one, which loses nothing between chunks.
        peak = requested + self.held if self.metered else int(requested * self.rate)
        return dataclasses.replace(found, peak_bytes=peak, least_bytes=0, source=PeakSource.PREDICTED)

    def _learn_rate(self, found: StepMeasurement, requested: int) -> None:
        if found.peak_bytes and found.source is not PeakSource.PREDICTED:
            self.rate = max(1.0, (found.peak_bytes - self._others(found)) / requested)
            self.known = True
