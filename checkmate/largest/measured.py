"""The largest size, measured: the step is traced there, scheduled and run, and at smaller sizes while it is
over.

What was extrapolated counts requested bytes. A device's allocator hands out chunks, and a step traced at that
very size may be folded differently: only a step that was run shows that the size fits.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from checkmate.errors import CancelledError, CheckmateError, StepTooLargeError, WorkerDiedError
from checkmate.ir import Graph, SolveResult
from checkmate.largest.sized_steps import Size, size_at
from checkmate.machine.device_memory import free_bytes, gpu_number
from checkmate.progress import Cancelled, Progress, Report, never, silent
from checkmate.request import ModelRequest
from checkmate.solvers.certify import with_schedule
from checkmate.solvers.problem import Problem, SolveOptions
from checkmate.units import format_bytes, format_seconds, plural

if TYPE_CHECKING:
    from checkmate.backends.tf.plain import MeterHistory

_MEASURED, _TRACED = 4, 12  # the most sizes that are measured, and traced
_RUNS = 5  # steps of one measurement: the first, three timed ones, one traced
_NEAR = 0.03  # of a size that fits: a larger size closer than this is not looked for
_WITHOUT = 0.97  # the next size, as a share of the last, if it is not known by how much that was too large
_SPARE = 0.97  # of the free memory, since other programs may take some of it meanwhile
_MARGIN = 1.2  # times the budget must be free
_PROCESS = 2 * 2**30  # bytes that must be free in addition, for TensorFlow itself and the traced graphs


@dataclass(frozen=True)
class SizeSteps:
    """The sizes to measure, downwards from the extrapolated ``size``.

    Sizes are batches; with an ``aspect`` (height, width) they are levels of an image's height. ``quick``: a
    small plain step with ``quick_fixed`` fixed bytes; a step at ``size`` should take ``times`` as long.
    """

    size: int
    quick: ModelRequest
    quick_fixed: int
    times: float
    aspect: Size | None = None

    @classmethod
    def below(
        cls, size: int, quick: ModelRequest, small: Graph, found: SolveResult, aspect: Size | None = None
    ) -> SizeSteps:
        """``found`` is the schedule at ``size``, ``small`` the step of ``quick``."""
        cost = found.cost or found.base_cost
        times = cost / small.base_cost if small.base_cost > 0 else 1.0
        return cls(size, quick, small.fixed_bytes, times, aspect)

    def request_at(self, size: int) -> ModelRequest:
        if self.aspect is None:
            return self.quick.at_batch(size)
        channels = self.quick.input_shape[2] if self.quick.input_shape else 3
        return replace(self.quick, input_shape=(*size_at(size, self.aspect), channels))

    def smaller(self, size: int, share: float) -> int:
        """Return a size that should need ``share`` of what ``size`` does."""
        return math.floor(size * (share if self.aspect is None else math.sqrt(share)))


@dataclass(frozen=True, eq=False)
class TriedSize:
    """One size that was tried; ``why`` it does not fit, if so.

    ``predicted_bytes``, ``peak_bytes``: predicted and measured peak on the allocator's meter, the largest of
    several steps. ``requested_bytes``: measured peak of requested bytes, fixed bytes included. All are None
    if nothing was run. ``seconds``: of one warm step.
    """

    size: int
    graph: Graph | None = None
    result: SolveResult | None = None
    predicted_bytes: int | None = None
    peak_bytes: int | None = None
    requested_bytes: int | None = None
    seconds: float | None = None
    device: str = ""
    meter: str = ""
    why: str = ""


@dataclass(frozen=True, eq=False)
class MeasuredSize:
    """``tried`` is in order. ``note`` says why nothing was measured, or why it ended without a size that
    fits.

    ``seconds`` are of all of it; ``estimate_s`` is the time expected of one measurement, None where there was
    no estimate.
    """

    tried: tuple[TriedSize, ...] = ()
    note: str = ""
    seconds: float = 0.0
    estimate_s: float | None = None
    cancelled: bool = False

    @property
    def fitting(self) -> TriedSize | None:
        return max((one for one in self.tried if not one.why), key=lambda one: one.size, default=None)


@dataclass
class _Measuring:
    """``cancelled``: also true when the time is up. ``allowed``: what a schedule may need, which is the
    budget, or less where the device has less."""

    sizes: SizeSteps
    budget: int
    allowed: int
    steps: Sequence[int]
    max_overhead: float | None
    options: SolveOptions
    report: Report
    cancelled: Cancelled
    known: MeterHistory
    tried: list[TriedSize]

    def run(self) -> str:
        """Try smaller sizes until one fits, then narrow the range; return why none fits, or ""."""
        low, high = 0, self.sizes.size + 1
        size = self.sizes.size
        while size > low and len(self.tried) < _TRACED and self._measured() < _MEASURED:
            self.report(
                Progress("trace", message=f"the step at {size}; largest measured to fit: {low or 'none yet'}")
            )
            found, share = self._try(size)
            self.tried.append(found)
            low, high = (low, size) if found.why else (size, high)
            if low and high - low <= max(1, int(_NEAR * low)):
                break
            size = (low + high) // 2 if low else min(high - 1, self.sizes.smaller(high, share))
        return "" if low else f"none of the {plural(len(self.tried), 'size')} tried fits"

    def _measured(self) -> int:
        return sum(one.peak_bytes is not None for one in self.tried)

    def _try(self, size: int) -> tuple[TriedSize, float]:
        """Try a size; return the result, and the share of the size that should fit if it does not."""
        from checkmate.largest.try_size import CappedSolver, try_size

        try:
            candidates = [
                one.result.require_schedule().steps.tolist() for one in self.tried[-1:] if one.result
            ]
            solver = CappedSolver(self.max_overhead, self.options, self.report, self.cancelled)
            found = try_size(
                self.sizes.request_at(size), self.allowed, [*candidates, self.steps], solver, self.known
            )
        except (WorkerDiedError, StepTooLargeError) as error:
            return TriedSize(size, why=str(error)), self._room_for(size, error)
        if found.schedule is None or found.predicted_bytes is None:
            return TriedSize(
                size, found.graph, why="no schedule within the budget and the cost was found for this size"
            ), _WITHOUT
        # Replays the schedule of the traced step by the check that shares no code with what found it.
        result = with_schedule(
            Problem(found.graph, self.budget), "auto", found.schedule.steps, lower_bound=None, seconds=0.0
        )
        tried = TriedSize(size, found.graph, result, predicted_bytes=found.predicted_bytes)
        fixed, shown = min(found.graph.fixed_bytes, self.allowed), found.measured
        if shown is None:
            predicted = format_bytes(found.predicted_bytes)
            limit = "the budget" if self.allowed == self.budget else "the device has"
            why = f"the allocator should show {predicted} (predicted), more than {limit}"
            share = (self.allowed - fixed) / max(1, found.predicted_bytes - fixed)
            return replace(tried, why=why), share
        self.known = self.known.after(shown, found.graph.fixed_bytes, found.predicted_bytes)
        share = (self.allowed - fixed) / max(1, shown.peak_bytes - fixed)
        peak, why = format_bytes(shown.peak_bytes), ""
        if shown.peak_bytes > self.budget:
            why = f"its measured peak {peak} is over by {format_bytes(shown.peak_bytes - self.budget)}"
        measured = replace(
            tried,
            peak_bytes=shown.peak_bytes,
            requested_bytes=shown.requested_peak_bytes,
            seconds=shown.seconds,
            device=shown.device,
            meter=shown.meter,
            why=why,
        )
        return measured, share

    def _room_for(self, size: int, error: CheckmateError) -> float:
        """Return the share of ``size`` that should fit the device.

        The free bytes that ``error`` states limit all further sizes.
        """
        free, fixed = error.details.get("free_bytes"), error.details.get("fixed_bytes")
        if free is None or fixed is None or int(_SPARE * free) + fixed >= self.allowed:
            return _WITHOUT
        self.allowed = int(_SPARE * free) + fixed
        share: float = _SPARE * free / max(1, self.budget - fixed)
        return min(_WITHOUT, share * self.sizes.size / size)


def measure_largest(
    sizes: SizeSteps,
    budget_bytes: int,
    steps: Sequence[int],
    *,
    max_overhead: float | None = None,
    always: bool = False,
    limit_s: float = 120.0,
    options: SolveOptions | None = None,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> MeasuredSize:
    """Measure the largest size, or the next smaller one that fits ``budget_bytes`` on the device's meter.

    ``steps`` is the schedule known at the largest size. Unless ``always``, nothing is measured where the
    device has too little free for the budget, or one measurement should take longer than ``limit_s``; and
    measuring ends after that. Cancelling (also Ctrl-C) keeps what was measured.

    Raises:
        CheckmateError: only where ``always``; else its sentence is the note.
    """
    begun = time.perf_counter()
    until = float("inf") if always else begun + limit_s
    asked = SolveOptions() if options is None else SolveOptions(workers=options.workers, seed=options.seed)
    tried, estimates = list[TriedSize](), list[float]()

    def over() -> bool:
        return cancelled() or time.perf_counter() > until

    def measure() -> str:
        from checkmate.backends.tf.devices import choose_device
        from checkmate.largest.try_size import measure_small

        number = gpu_number(sizes.quick.device)
        if not always and (why := too_large(choose_device(sizes.quick).kind, budget_bytes, number)):
            return why
        known, seconds = measure_small(sizes.quick, sizes.quick_fixed, report=report, cancelled=over)
        expected = _RUNS * sizes.times * seconds
        estimates.append(expected)
        if not always and expected > limit_s:
            why = f"measuring it should take {format_seconds(expected)}"
            return f"{why}, more than the limit of {format_seconds(limit_s)} (--measure-limit)"
        measuring = _Measuring(
            sizes, budget_bytes, budget_bytes, steps, max_overhead, asked, report, over, known, tried
        )
        return measuring.run()

    stopped = False
    try:
        note = measure()
    except (CancelledError, KeyboardInterrupt) as error:
        stopped = cancelled() or isinstance(error, KeyboardInterrupt)
        note = (
            "interrupted"
            if stopped
            else f"the limit of {format_seconds(limit_s)} was reached (--measure-limit)"
        )
    except CheckmateError as error:
        if always:
            raise
        note = str(error)
    expected_s = estimates[0] if estimates else None
    return MeasuredSize(tuple(tried), note, time.perf_counter() - begun, expected_s, stopped)


def too_large(kind: str, budget_bytes: int, number: int = 0) -> str:
    """Return why a step that needs ``budget_bytes`` should not be run on this ``cpu`` or ``gpu``, or ""."""
    free = free_bytes(kind, number)
    where = "this machine" if kind == "cpu" else "the GPU"
    if free is None:
        return f"how much memory {where} has free is not known"
    needed = int(_MARGIN * budget_bytes) + (_PROCESS if kind == "cpu" else 0)
    if free < needed:
        return f"{where} has {format_bytes(free)} free; a safe run needs {format_bytes(needed)}"
    return ""
