"""Look for a better plan while training goes on.

A thread of low priority solves; the solver's kernels run without Python's global lock. What it found is
measured between two batches, and all variables are put back.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress

import numpy as np
import tensorflow as tf

from checkmate.backends.tf.models.batch import BatchLayout
from checkmate.errors import CancelledError
from checkmate.ir import SolveResult
from checkmate.planning.plan_request import PlanRequest, SolveRequest
from checkmate.progress import Report, silent
from checkmate.training.search import PlanSearch

_NICER = 10  # added to the thread's niceness, if the system has priorities of threads
_END_S = 10.0  # the most seconds to wait for a solver that was told to stop


class Improvement:
    """The rest of a ``search`` whose first schedule has run. ``go_on_until`` does it in the foreground.
    ``begin`` solves in a thread beside training; then call ``go_on`` between two batches, and ``rest`` when
    training ends. ``over``: nothing is left to try."""

    def __init__(self, search: PlanSearch) -> None:
        self.search = search
        self._asks = search.corrections()
        self._ask: SolveRequest | None = next(self._asks, None)
        self._solving: SolvingThread | None = None
        self._example: list[np.ndarray] = []

    @property
    def layout(self) -> BatchLayout:
        return self.search.trials.step.layout

    @property
    def over(self) -> bool:
        return self._ask is None

    @property
    def solved(self) -> bool:
        return self._solving is not None and not self._solving.running

    @property
    def resting(self) -> bool:
        """Whether something is left to try, but no thread solves."""
        return self._solving is None and not self.over

    def go_on_until(self, enough: Callable[[], bool]) -> None:
        trials, request = self.search.trials, self.search.request
        while self._ask is not None and not enough():
            self._advance(request.answer(self._ask, trials.report))

    def begin(self, tensors: Sequence[tf.Tensor]) -> None:
        """Begin to solve in a thread. A copy of the batch stays in host memory for ``finish`` and
        ``rest``."""
        self._example = self._example or [np.array(tensor) for tensor in tensors]
        self._let_go()
        self._solve_on()

    def go_on(self, tensors: Sequence[tf.Tensor]) -> None:
        """Measure the thread's answer on ``tensors``, and ask for the next one."""
        assert self._solving is not None
        solving, self._solving = self._solving, None
        self.search.trials.tensors = tensors
        try:
            self._advance(solving.result())
        finally:
            self._let_go()
        self._solve_on()

    def finish(self, report: Report) -> None:
        """Wait for the thread, and measure all that is left, on the first batch."""
        solving, self._solving = self._solving, None
        with self._on_first_batch(report):
            if solving is not None:
                self._advance(solving.result())
            self.go_on_until(lambda: False)

    def rest(self, report: Report) -> None:
        """End the thread's solve, and measure what it has found; ``begin`` goes on from there."""
        solving, self._solving = self._solving, None
        found = None if solving is None else solving.cut_short()
        if found is not None and found.schedule is not None:  # a solve cut short without one is no answer
            with self._on_first_batch(report):
                self._advance(found)

    @contextmanager
    def _on_first_batch(self, report: Report) -> Iterator[None]:
        # Copies in the device's memory, so that the meter counts them like a data set's batch.
        tensors = [tf.raw_ops.DeepCopy(x=tf.constant(array)) for array in self._example]
        self.search.trials.tensors, self.search.trials.report = tensors, report
        try:
            yield
        finally:
            del tensors
            self._let_go()

    def stop(self) -> None:
        if self._solving is not None:
            self._solving.stop()
            self._solving = None

    def _advance(self, result: SolveResult) -> None:
        self._ask = None  # set again below; after an interrupt the search is over
        with suppress(StopIteration):
            self._ask = self._asks.send(result)

    def _let_go(self) -> None:
        self.search.trials.tensors, self.search.trials.report = (), silent

    def _solve_on(self) -> None:
        if self._ask is not None:
            self._solving = SolvingThread(self.search.request, self._ask)


class SolvingThread:
    """A solve in a thread of low priority; it is stopped when this object is garbage collected."""

    def __init__(self, request: PlanRequest, asked: SolveRequest) -> None:
        self._answer, cancelled = Future[SolveResult](), threading.Event()
        arguments = (request, asked, self._answer, cancelled)
        self._thread = threading.Thread(target=_solve, args=arguments, daemon=True, name="solve")
        self._thread.start()
        self.stop = weakref.finalize(self, _end, self._thread, cancelled)

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def result(self) -> SolveResult:
        """Wait for the answer and return it."""
        found = self._answer.result()
        if not self.stop.alive:
            raise CancelledError("the solve was stopped")
        return found

    def cut_short(self) -> SolveResult | None:
        """End the solve; return what it has found by now."""
        self.stop()
        failed = not self._answer.done() or self._answer.exception() is not None
        return None if failed else self._answer.result()


def _solve(
    request: PlanRequest, asked: SolveRequest, found: Future[SolveResult], cancelled: threading.Event
) -> None:
    with suppress(AttributeError, OSError):  # Linux has priorities of threads
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICER)
    try:
        found.set_result(request.answer(asked, silent, cancelled.is_set))
    except Exception as error:  # the edge of this thread: raised where the answer is taken
        found.set_exception(error)


def _end(thread: threading.Thread, cancelled: threading.Event) -> None:
    cancelled.set()
    if thread is not threading.current_thread():  # the garbage collector runs in any thread
        thread.join(_END_S)
