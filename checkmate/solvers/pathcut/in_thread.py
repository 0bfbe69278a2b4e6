"""The path-cut prover in a thread, for small graphs: there HiGHS can always be stopped at once."""

from __future__ import annotations

import threading
import time

from checkmate.errors import CheckmateError, SolverCrashedError
from checkmate.ir import Graph
from checkmate.ir.arrays import Steps
from checkmate.solvers.pathcut.in_process import BackgroundProver, ProverProcess, ProverState
from checkmate.solvers.pathcut.prover import ProofListener, Prover

SMALL = 120  # ops


def background_prover(graph: Graph) -> BackgroundProver:
    return ProverThread(graph) if graph.n <= SMALL else ProverProcess(graph)


class ProverThread(BackgroundProver):
    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._prover: Prover | None = None
        self.known_steps: Steps | None = None
        self._failure: CheckmateError | None = None

    def start(self) -> None:
        """Nothing has to start."""

    def prove(self, budget_bytes: int, *, seconds: float, workers: int = 1) -> None:
        self.stop()
        if self._prover is None or self._prover.budget_bytes != budget_bytes:
            self._prover = Prover(self.graph, budget_bytes, workers=workers, reach=self.reach)
        self._stopping = threading.Event()
        self.known_steps, self._failure = None, None
        self.schedules.clear()
        self._thread = threading.Thread(
            target=self._run,
            args=(self._prover, self._stopping, time.perf_counter() + seconds),
            daemon=True,
            name="prover",
        )
        self._thread.start()

    def _run(self, prover: Prover, stopping: threading.Event, until: float) -> None:
        try:
            prover.run(_ThreadListener(self, stopping), until=until)
        except Exception as error:  # errors end the thread here, and ``state`` raises them in the caller's
            self._failure = SolverCrashedError(
                f"the prover failed: {type(error).__name__}: {str(error)[:300]}"
            )

    def offer(self, steps: Steps) -> None:
        self.known_steps = steps

    def stop(self) -> None:
        """End the current job. This waits the few milliseconds until HiGHS has stopped."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stopping.set()
            thread.join()

    def state(self) -> ProverState:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        prover = self._prover
        if prover is None:
            return ProverState(self.graph.base_cost, 0, 0, over=True)
        over = self._thread is None or not self._thread.is_alive()
        return ProverState(prover.bound, prover.cuts, prover.rounds, over)


class _ThreadListener(ProofListener):
    def __init__(self, prover: ProverThread, stopping: threading.Event) -> None:
        self._prover, self._stopping = prover, stopping

    def described(self, steps: Steps) -> None:
        self._prover.schedules.append(steps)

    def known(self) -> Steps | None:
        return self._prover.known_steps

    def cancelled(self) -> bool:
        return self._stopping.is_set()
