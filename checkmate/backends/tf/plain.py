"""The plain step, which need not fit: it is measured, or else predicted and measured at a smaller batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from checkmate.backends.tf.allocator.predict import before_steps, predicted_allocated
from checkmate.backends.tf.allocator.replay import requests_of_step
from checkmate.backends.tf.measure.fresh_step import FreshMeasurement, measure_fresh
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.xla.tied import XlaEmission
from checkmate.errors import StepTooLargeError
from checkmate.ir import Graph, Schedule
from checkmate.memory.step_requests import InitialAllocations, StepRequests
from checkmate.progress import Cancelled, Report
from checkmate.request import ModelRequest
from checkmate.units import format_bytes

_OF_THE_FREE = 0.9  # the share of the free memory that the first smaller batch should take
_SMALLER = 2 / 3  # the next batch, as a share of one that did not fit
_TRIES = 12

History = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Plain:
    """What is known of the plain step. ``predicted_bytes``: its peak on the meter, as predicted. ``history``:
    the requests to the allocator before the first step. ``batch``: the largest tried batch that fits; 0 if
    none does. ``measured``: None if the step does not fit; ``why`` then says so, and ``free_bytes`` is the
    memory that was available, if known."""

    predicted_bytes: int
    history: History
    batch: int
    measured: FreshMeasurement | None = None
    why: str = ""
    free_bytes: int | None = None

    @property
    def peak_bytes(self) -> int:
        """The first step's peak on the meter: measured where the step fits, else predicted."""
        return self.predicted_bytes if self.measured is None else self.measured.first_peak_bytes

    @property
    def note(self) -> str:
        """A sentence where the step does not fit, else an empty string."""
        if self.measured is not None:
            return ""
        room = "" if self.free_bytes is None else f" of {format_bytes(self.free_bytes)}"
        return f"plain step: does not fit (predicted {format_bytes(self.predicted_bytes)}{room})"

    def facts(self) -> dict[str, Any]:
        """Return the report's facts about the plain step. ``largest_batch`` is None if no tried batch
        fits."""
        return {
            "fits": self.measured is not None,
            "why": self.why,
            "predicted_bytes": self.predicted_bytes,
            "free_bytes": self.free_bytes,
            "largest_batch": self.batch or None,
        }


def measure_plain(
    request: ModelRequest,
    folded: FoldedStep,
    *,
    too_large: StepTooLargeError | None = None,
    xla: XlaEmission | None = None,
    report: Report,
    cancelled: Cancelled,
) -> Plain:
    """Measure the plain step in a fresh process; at smaller batches where it does not fit (``too_large``)."""
    graph = folded.graph
    if too_large is None:
        try:
            found = measure_fresh(
                request,
                None,
                message="measuring the plain step",
                report=report,
                cancelled=cancelled,
                history=True,
                xla=xla,
            )
            return Plain(_predicted(folded, found.history), found.history, request.batch_size, found)
        except StepTooLargeError as error:
            too_large = error
    free = _free_bytes(too_large, graph)
    batch, history = 0, History()
    sizes = smaller_batches(request.batch_size, share_of(too_large))
    for smaller in sizes if folded.traced.loaded.any_batch else ():
        at = request.at_batch(smaller)
        message = f"the plain step does not fit; measuring it at batch {smaller}"
        try:
            found = measure_fresh(
                at, None, message=message, report=report, cancelled=cancelled, history=True, xla=xla
            )
        except StepTooLargeError:
            continue
        batch, history = smaller, MeterHistory(found.history, found.fixed_bytes).at(graph.fixed_bytes)
        break
    return Plain(_predicted(folded, history), history, batch, why=str(too_large), free_bytes=free)


def share_of(error: StepTooLargeError) -> float:
    """Return the share of the batch that should fit, by the bytes in ``error``; one half if it has none."""
    needed, free = error.details.get("needed_bytes"), error.details.get("free_bytes")
    return 0.5 if not needed or free is None else min(1.0, _OF_THE_FREE * free / needed)


def smaller_batches(batch: int, share: float) -> Iterator[int]:
    """Yield batches below ``batch`` to try, down to 1. The largest that should fit comes first."""
    size = min(batch - 1, max(1, int(batch * share)))
    for _ in range(_TRIES):
        if size < 1:
            return
        yield size
        size = 1 if 1 < size < 3 else int(size * _SMALLER)


def _predicted(folded: FoldedStep, history: History) -> int:
    graph = folded.graph
    everything = list(range(graph.n))
    fixed = 0 if history else graph.fixed_bytes  # a history already contains the fixed bytes
    return fixed + predicted_allocated(folded, graph, everything, history, small_chunks=False)


def _free_bytes(error: StepTooLargeError, graph: Graph) -> int | None:
    """Return the device's free bytes plus those of the step that it holds already; None: not known."""
    free = error.details.get("free_bytes")
    if free is not None:
        return int(free) + graph.fixed_bytes
    return (
        (graph.device.memory_bytes or None)
        if graph.device is not None and graph.device_kind == "gpu"
        else None
    )


@dataclass(frozen=True)
class MeterHistory:
    """What a measurement tells about the allocator at other sizes. ``history``: its requests before the first
    step, in which the graph had ``fixed_bytes``. ``surplus``: how much more than predicted the meter showed,
    as a share."""

    history: tuple[tuple[int, int], ...]
    fixed_bytes: int
    surplus: float = 0.0

    def at(self, fixed_bytes: int) -> tuple[tuple[int, int], ...]:
        """Return the history for a graph with ``fixed_bytes``; the difference is added as one more
        request."""
        more = fixed_bytes - self.fixed_bytes
        handle = 1 + max((handle for handle, _ in self.history), default=0)
        return (*self.history, (handle, more)) if more > 0 else self.history

    def after(self, measured: FreshMeasurement, fixed_bytes: int, predicted: int) -> MeterHistory:
        surplus = (1 + self.surplus) * measured.peak_bytes / predicted - 1
        return MeterHistory(measured.history, fixed_bytes, max(self.surplus, surplus))


@dataclass(frozen=True, eq=False)
class AllocatorReplica:
    """Predicts the peak on the allocator's meter for schedules of one step. ``history``: (handle, bytes) of
    the requests before the first step. ``surplus``: a share that is added to each prediction, because earlier
    measurements showed more than predicted."""

    folded: FoldedStep
    history: Sequence[tuple[int, int]]
    surplus: float = 0.0

    @property
    def graph(self) -> Graph:
        return self.folded.graph

    def predicted(self, steps: Sequence[int]) -> int:
        shown = predicted_allocated(self.folded, self.graph, list(steps), self.history)
        return int((1 + self.surplus) * shown)

    def requests(self, steps: Sequence[int]) -> StepRequests:
        return requests_of_step(self.folded, self.graph, steps)

    def before(self, steps: Sequence[int]) -> InitialAllocations:
        return before_steps(self.folded, self.graph, Schedule.of(self.graph, list(steps)), self.history)
