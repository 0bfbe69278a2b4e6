"""Tasks that write a line into a file every time they run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from checkmate.frontiers.tasks import SolveTask
from checkmate.planning import keep_everything_peak
from checkmate.solvers.problem import SolveOptions
from checkmate.sweeps.journal import Data, _parsed
from checkmate.sweeps.run import SweepResult
from tests.generated_graphs import training_dag


def read_entries(path: Path) -> dict[str, Data]:
    """Return what a journal, which may still be being written, holds by key."""
    return _parsed(path, path.read_bytes())[0]


def mark(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{text}\n".encode())
    os.close(descriptor)


def marks(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


@dataclass(frozen=True, eq=False)
class Counted(SolveTask):
    """Write ``label pid`` down, wait, and solve."""

    path: Path
    label: str
    pause_s: float

    @property
    def name(self) -> str:
        return self.label

    def work(self) -> Data:
        mark(self.path, f"{self.label} {os.getpid()}")
        time.sleep(self.pause_s)
        return super().work()


class Deadly(Counted):
    def work(self) -> Data:
        mark(self.path, f"{self.label} {os.getpid()}")
        os._exit(1)


class Wrong(Counted):
    def work(self) -> Data:
        return {**super().work(), "cost": 1.0}  # which its schedule does not have


class Failing(Counted):
    def work(self) -> Data:
        raise ValueError("no such thing")


def variant(task: Counted, kind: type[Counted]) -> Counted:
    return kind(**vars(task))


def sweep_tasks(path: Path, *, seeds: Sequence[int] = (1, 2), shares: Sequence[float] = (0.6, 0.7, 0.8, 0.9),
                pause_s: float = 0.0) -> list[Counted]:  # fmt: skip
    """Return small graphs at several budgets, each ended by its number of moves."""
    tasks = []
    for seed in seeds:
        graph = training_dag(seed, 12)
        options = SolveOptions(time_limit_s=60.0, moves=3000, seed=seed)
        for share in shares:
            budget = int(share * keep_everything_peak(graph))
            tasks.append(Counted(graph, budget, "local-search", options, path, f"{seed}@{share}", pause_s))
    return tasks


def repeatable(data: Data) -> Data:
    return {name: value for name, value in data.items() if name != "solve_seconds"}


def answers(swept: SweepResult) -> dict[str, Data]:
    return {key: repeatable(data) for key, data in swept.answers.items()}


def until(condition: Callable[[], bool], patience_s: float = 120.0) -> None:
    end = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < end, "what was waited for never came"
        time.sleep(0.01)
