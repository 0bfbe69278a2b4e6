"""Sweeps in which a machine is lost, judged by their answers and journal."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkmate.errors import EngineUnavailableError
from checkmate.sweeps.engine import Engine, open_pool, parse_engine
from checkmate.sweeps.journal import open_journal, read_entries
from checkmate.sweeps.run import run
from tests.machines.network import Machine, Machines
from tests.unit.sweeps import counting

PAUSE_S = 1.0  # that each task takes beside its solve, so that one is running when the machine is lost


@dataclass
class Loss:
    """What a sweep came to: its tasks, how many ran again, what broke."""

    tasks: int
    again: int
    problems: list[str]


def tasks_at(ran: Path, pause_s: float = PAUSE_S) -> list[counting.Counted]:
    return counting.sweep_tasks(ran, pause_s=pause_s)


def answers_here(folder: Path) -> dict[str, Any]:
    with open_pool(Engine(count=1)) as pool:
        return counting.answers(run(tasks_at(folder / "here", 0.0), pool))


def ran_on(ran: Path, machine: Machine) -> list[str]:
    pids = {str(process.pid) for process in machine.processes}
    return [line.split()[0] for line in counting.marks(ran) if line.split()[1] in pids]


def lose_machine(
    machines: Machines, machine: Machine, folder: Path, right: dict[str, Any], lose: Callable[[], None]
) -> Loss:
    """Sweep, and lose a machine while it solves: all must be answered."""
    ran, path = folder / "ran", folder / "sweep.jsonl"
    tasks = tasks_at(ran)
    lost: list[str] = []

    def lose_it() -> None:
        counting.until(lambda: bool(ran_on(ran, machine)))
        lost.extend(ran_on(ran, machine)[-1:])
        lose()

    thread = threading.Thread(target=lose_it, daemon=True)
    with open_pool(parse_engine(f"dask://{machines.address}")) as pool, open_journal(path) as journal:
        counting.until(lambda: pool.slots() == 2)
        thread.start()
        swept = run(tasks, pool, journal=journal)
    thread.join()
    problems = [f"a failure: {why}" for why in swept.failures.values()]
    if counting.answers(swept) != right:
        problems.append("the answers are not those of one machine")
    if set(read_entries(path)) != set(right):
        problems.append("the journal does not have them all")
    names = [line.split()[0] for line in counting.marks(ran)]
    if not lost or names.count(lost[0]) < 2:
        problems.append("the lost task did not run again")
    return Loss(len(tasks), len(names) - len(set(names)), problems)


def lose_scheduler(machines: Machines, folder: Path, right: dict[str, Any]) -> Loss:
    """Lose the scheduler in the middle; the journal must carry on from there."""
    ran, path = folder / "ran", folder / "sweep.jsonl"
    tasks, problems = tasks_at(ran), list[str]()
    engine = parse_engine(f"dask://{machines.address}")

    def lose_it() -> None:
        counting.until(lambda: len(read_entries(path)) >= 3)
        machines.scheduler.lose()

    thread = threading.Thread(target=lose_it, daemon=True)
    try:
        with open_pool(engine) as pool, open_journal(path) as journal:
            counting.until(lambda: pool.slots() == 2)
            thread.start()
            run(tasks, pool, journal=journal)
        problems.append("the scheduler was lost, and nothing was said")
    except EngineUnavailableError as error:
        if "was lost" not in str(error):
            problems.append(f"it is said that {error}")
    thread.join()
    kept = read_entries(path)
    for machine in machines.machines:
        machine.lose()
    machines.start_all()
    with open_pool(engine) as pool, open_journal(path) as journal:
        swept = run(tasks, pool, journal=journal)
    if counting.answers(swept) != right or swept.failures:
        problems.append("the answers are not those of one machine")
    if swept.reused != len(kept) or not 3 <= len(kept) < len(tasks):
        problems.append(f"{swept.reused} answers of {len(kept)} were taken from the journal")
    names = [line.split()[0] for line in counting.marks(ran)]
    if len(names) > 2 * len(tasks) - len(kept):
        problems.append("finished tasks ran again")
    return Loss(len(tasks), len(names) - len(set(names)), problems)
