"""Splice schedules: one up to an op's first execution, another from there on.

Good schedules of one graph often differ in a few dear recomputations only, each good in another part of the step. A splice
joins the one's first part and the other's last part; what it holds too much is repaired by a short annealing. (Crossover at
one point, as in memetic algorithms; that first executions are a valid place to cut holds for every pair of schedules whose
first parts run the same ops.)
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from checkmate.errors import ScheduleError
from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule
from checkmate.ir.timeline import Timeline
from checkmate.simulate import simulate

Steps = NDArray[np.int32]

_TRIES = 100  # random splices until there is one to repair
_SLACK = 3.0  # budgets: the most excess, summed over the steps, that a repair is tried on
_SAME = 1e-9  # schedules whose costs differ by less, relatively, count as one


class Found(NamedTuple):
    """A schedule within the budget and its cost."""

    cost: float
    steps: Steps


def replayed(graph: Graph, steps: Steps) -> Timeline | None:
    """The replay of ``steps``; None where they are no schedule of ``graph``."""
    runs = np.bincount(steps, minlength=graph.n)
    if len(runs) > graph.n or not runs.all() or (runs[~graph.recomputable] > 1).any():
        return None
    try:
        return simulate(graph, Schedule.of(graph, steps))
    except ScheduleError:
        return None  # something is read before it is produced


class Child(NamedTuple):
    """A splice: ``steps`` may be over the budget; ``worse``: the parent that costs more."""

    steps: Steps
    worse: Found


@dataclass
class Pool:
    """Schedules that differ in cost, for splicing. Which ones are spliced depends on ``seed`` and on what was added only.

    Several searches may share one, each in a thread of its own: they share the climbs of a round, and splice what all have found.
    """

    graph: Graph
    budget_bytes: int
    seed: int
    members: list[Found] = field(init=False, default_factory=list)
    round: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)
        self._first: list[NDArray[np.int64]] = []  # per member: place of each op's first execution
        self._climbs = self._still = 0  # in this round: climbs begun, splices without a new best
        self._climbing = 0  # climbs begun and not over
        self._lock = threading.RLock()

    @property
    def best(self) -> float:
        """The least cost; infinite while there is no member."""
        with self._lock:
            return min((member.cost for member in self.members), default=np.inf)

    def begin_climb(self, most: int) -> bool:
        """Whether one of this round's ``most`` climbs is left; it is the caller's then."""
        with self._lock:
            if self._climbs >= most:
                return False
            self._climbs += 1
            self._climbing += 1
            return True

    def end_climb(self, found: Found | None) -> None:
        """A climb that was begun is over, with a schedule or without."""
        with self._lock:
            self._climbing -= 1
            if found is not None:
                self.add(found)

    @property
    def waits(self) -> bool:
        """Whether there is nothing to splice yet because other searches are still climbing."""
        with self._lock:
            return self._climbing > 0 and len(self.members) < 2

    def note_splice(self, *, improved: bool, patience: int) -> None:
        """A splice was repaired; after ``patience`` of them without a new best the round is over."""
        with self._lock:
            self._still = 0 if improved else self._still + 1
            if self._still >= patience:
                self.end_round(self.round)

    def end_round(self, number: int) -> None:
        """Go on with the cheapest member alone, unless round ``number`` is over already."""
        with self._lock:
            if number == self.round:
                self.round += 1
                self._climbs = self._still = 0
                self.keep_best()

    def add(self, found: Found, instead_of: Found | None = None) -> bool:
        """Add a schedule, or put it in the place of a dearer one; False where one of the same cost is there."""
        with self._lock:
            if any(abs(member.cost - found.cost) <= _SAME * member.cost for member in self.members):
                return False
            place = next((i for i, member in enumerate(self.members) if member is instead_of), None)
            if place is None:
                self.members.append(found)
                self._first.append(_first_runs(found.steps, self.graph.n))
                return True
            if found.cost >= self.members[place].cost:
                return False
            self.members[place], self._first[place] = found, _first_runs(found.steps, self.graph.n)
            return True

    def keep_best(self) -> None:
        """Drop all but the cheapest member."""
        with self._lock:
            if self.members:
                place = min(range(len(self.members)), key=lambda i: self.members[i].cost)
                self.members, self._first = [self.members[place]], [self._first[place]]

    def splice(self) -> Child | None:
        """Two members joined at a random op, unlike both and nearly within the budget; None where none is found."""
        with self._lock:
            return self._splice()

    def _splice(self) -> Child | None:
        if len(self.members) < 2:
            return None
        for _ in range(_TRIES):
            a, b = self._random.choice(len(self.members), 2, replace=False).tolist()
            op = int(self._random.integers(self.graph.n))
            head, tail = self.members[a].steps, self.members[b].steps
            steps = np.concatenate([head[: self._first[a][op]], tail[self._first[b][op] :]])
            if np.array_equal(steps, head) or np.array_equal(steps, tail):
                continue
            timeline = replayed(self.graph, steps)
            if timeline is None:
                continue
            excess = np.maximum(timeline.live_bytes - self.budget_bytes, 0)
            if float(excess.sum()) <= _SLACK * self.budget_bytes:
                return Child(steps, self.members[a if self.members[a].cost > self.members[b].cost else b])
        return None


def _first_runs(steps: Steps, n: int) -> NDArray[np.int64]:
    first = np.empty(n, np.int64)
    ops, places = np.unique(steps, return_index=True)
    first[ops] = places
    return first
