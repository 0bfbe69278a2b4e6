"""Define tasks that write a line into a file every time they run.

Workers import them by this module's name.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from checkmate.frontiers.tasks import solve_sent, solve_task
from checkmate.planning import keep_everything_peak
from checkmate.solvers.problem import SolveOptions
from checkmate.sweeps.run import Data, Task
from tests.generated_graphs import training_dag

NAME = "tests.unit.sweeps.counting"


def mark(path: str, text: str) -> None:
    """Append one whole line to a file, from any process."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{text}\n".encode())
    os.close(descriptor)


def marks(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def counted(sent: tuple[str, str, float, Any]) -> Data:
    """Write ``name pid`` down, wait, and solve what was sent."""
    path, name, pause_s, order = sent
    mark(path, f"{name} {os.getpid()}")
    time.sleep(pause_s)
    return solve_sent(order)


def deadly(sent: tuple[str, str, float, Any]) -> Data:
    """Write it down and end the worker."""
    mark(sent[0], f"{sent[1]} {os.getpid()}")
    os._exit(1)


def wrong(sent: tuple[str, str, float, Any]) -> Data:
    """Return an answer with a cost that its schedule does not have."""
    return {**counted(sent), "cost": 1.0}


def failing(sent: tuple[str, str, float, Any]) -> Data:
    raise ValueError("no such thing")


def sweep_tasks(path: Path, *, seeds: Sequence[int] = (1, 2), shares: Sequence[float] = (0.6, 0.7, 0.8, 0.9),
                pause_s: float = 0.0) -> list[Task]:  # fmt: skip
    """Return small graphs at several budgets, each written down.

    Each task is ended by its number of moves.
    """
    tasks = []
    for seed in seeds:
        graph = training_dag(seed, 12)
        for share in shares:
            budget = int(share * keep_everything_peak(graph))
            plain = solve_task(
                graph, budget, "local-search", SolveOptions(time_limit_s=60.0, moves=3000, seed=seed)
            )
            name = f"{seed}@{share}"
            sent = (str(path), name, pause_s, plain.payload)
            tasks.append(Task(name, plain.facts, counted, sent, plain.wrong))
    return tasks


def repeatable(data: Data) -> Data:
    """Return an answer without what depends on the clock."""
    return {name: value for name, value in data.items() if name != "solve_seconds"}
