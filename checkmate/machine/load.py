"""How much CPU time other programs take, and how far measured costs can be trusted.

The load is the CPU time between two moments, less this process's own: the system's load average covers the
last minute and counts this process too.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psutil

# Others may take this share of the cores, and never more than one core: a parallel op waits for its slowest
# thread.
_BUSY_SHARE, _BUSY_CORES = 0.15, 1.0
_WIDE_SPREAD = 0.15  # on two quiet cores the middle run of a step is a few percent slower than its quickest


@dataclass(frozen=True)
class Reading:
    """The conditions under which costs were measured.

    ``load``: cores that other programs took, on average, of the ``cores`` that this process may use.
    ``spread``: see ``step_spread``.
    """

    load: float = 0.0
    cores: int = 1
    spread: float = 0.0

    @property
    def is_busy(self) -> bool:
        return self.load > self._most_load

    @property
    def doubt(self) -> float:
        """Costs with a doubt of at most 1 can be trusted."""
        return max(self.load / self._most_load, self.spread / _WIDE_SPREAD)

    @property
    def is_doubtful(self) -> bool:
        return self.doubt > 1.0

    @property
    def _most_load(self) -> float:
        return min(_BUSY_SHARE * self.cores, _BUSY_CORES)

    def replaces(self, older: Reading) -> bool:
        """A worse measurement never replaces one."""
        return self.doubt <= max(1.0, older.doubt)

    def with_worse(self, other: Reading) -> Reading:
        return Reading(
            max(self.load, other.load), max(self.cores, other.cores), max(self.spread, other.spread)
        )


def step_spread(seconds: Sequence[float]) -> float:
    """Return how much longer the middle run is than the quickest, over the quickest."""
    least = min(seconds)
    return statistics.median(seconds) / least - 1 if least > 0 else 0.0


def usable_cores() -> int:
    return len(own_cores()) or os.cpu_count() or 1


def own_cores() -> list[int]:
    """Empty where the system does not tell."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


_LOOK_S = 0.5  # Linux counts CPU time in ticks; this is fifty of them
_BUSY_KINDS = ("user", "nice", "system", "irq", "softirq", "steal")  # steal: by other virtual machines


@dataclass(frozen=True)
class CpuTimes:
    """The clock (``at``), and the CPU seconds of all programs and of this process until then."""

    at: float
    everyone: float
    own: float


def this_moment() -> CpuTimes:
    try:
        per_core = psutil.cpu_times(percpu=True)
    except (OSError, RuntimeError, psutil.Error):  # the system does not tell: the load of others is unknown
        per_core = []
    mine = own_cores()
    # Where a core is switched off, the list is shorter and does not say which one is missing: then all count.
    wanted = [per_core[core] for core in mine] if mine and max(mine) < len(per_core) else per_core
    everyone = sum(float(getattr(times, kind, 0.0)) for times in wanted for kind in _BUSY_KINDS)
    return CpuTimes(time.perf_counter(), everyone, time.process_time())


class LoadMeter:
    """Measures the load by other programs; a test's meter has clocks of its own."""

    def __init__(self) -> None:
        self.cores = usable_cores()

    def read(self) -> CpuTimes:
        return this_moment()

    def clock(self) -> float:
        return time.perf_counter()

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def load_since(self, start: CpuTimes) -> float:
        """Return how many cores other programs took since ``start``, on average."""
        now = self.read()
        passed = now.at - start.at
        if passed <= 0:
            return 0.0
        taken = (now.everyone - start.everyone) - (now.own - start.own)
        return min(max(0.0, taken / passed), float(self.cores))

    def is_quiet(self) -> bool:
        start = self.read()
        self.wait(_LOOK_S)
        return not Reading(self.load_since(start), self.cores).is_busy


def seconds_computed(pid: int) -> float:
    """Return the CPU seconds of a process and its children, ended ones too; 0 where there is none."""
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    except psutil.Error:
        return 0.0
    return sum(map(_own_seconds, family))


def _own_seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    ended = getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    return float(times.user + times.system + ended)
