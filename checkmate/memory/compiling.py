"""Choose which schedules to compile, until one keeps a budget.

A compiler's bytes are not the graph's: it fuses ops, whose values then need no memory, and it orders what
nothing holds. What a step takes is known once it is compiled; it is not run for that. First the plain order
is compiled, in those ways that change what it holds: nothing is recomputed. Then schedules are solved for,
and each says where to aim next (``checkmate.memory.meter_aim``), until the budget is used up or no cheaper
schedule is to be had. The same step gives the same answers again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.ir.schedule import Schedule
from checkmate.memory.meter_aim import Attempt, MeterAim
from checkmate.memory.simulate import simulate

MOST_SCHEDULES = 6  # are solved for and compiled; the order alone and the smallest come on top
_SOLVES = 10  # that may be needed for them, where the solver gives a known schedule again
NEAR = 1.3  # of the room: what takes more will not fit in another way
_AT_LEAST = 0.5  # of the graph's bytes, that the order alone takes: 0.70 to 1.0 where it was measured
_LEAST_RATE = 0.1  # of the graph's bytes, that a compiler may take
_NEAR_WHOLE = 1.05  # of the room, that a schedule of whole segments requests at most: 0.97 was taken of that
_MOST_WHOLE = 4  # schedules of whole segments that are compiled
_USED = 0.95  # of the room: a schedule that takes as much is good enough
_SLOW_S = 10.0  # of a compilation: users are told what is to come

Way = TypeVar("Way")
Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class Compiled(Generic[Way, Made]):
    """A schedule that was compiled in one way.

    ``temporary``: the bytes between arguments and results. ``cost``: in the graph's unit. ``price``: what it
    probably takes as it was compiled, to choose among several.
    """

    schedule: Schedule
    way: Way
    made: Made
    temporary: int
    cost: float
    price: float


@dataclass(frozen=True, eq=False)
class Compiler(Generic[Way, Made]):
    """How schedules come to be, and how they are compiled.

    ``ways``: in the order in which they are tried; ``usual`` of them for each schedule, all for the smallest.
    ``holds_order``: whether all steps wait in a way. ``compile``: gives what was made, and its temporaries.
    ``solve``: bytes of the graph → a schedule, or None. ``least``: the one with the least memory known.
    ``price``: what a schedule takes as it was compiled, in any unit, or None where that is not known; without
    it the graph's costs count. ``whole``: bytes of the graph → schedules that recompute whole segments, the
    cheapest first. Compilers often take less for them than for others that request as much. ``near``: of the
    room; a schedule that takes more in one way is not tried in another. ``near_order``: the same, for the
    plain order. ``says_least``: whether the smallest is compiled in all ways where nothing fits, however far
    it is. ``extra``: what a way takes on top, as a share of the plain order's cost.
    """

    ways: Sequence[Way]
    usual: int
    holds_order: Callable[[Way], bool]
    compile: Callable[[Schedule, Way], tuple[Made, int]]
    solve: Callable[[int], Schedule | None]
    least: Callable[[], Schedule | None]
    price: Callable[[Schedule, Made], float | None] | None = None
    whole: Callable[[int], Sequence[Schedule]] = lambda asked: ()
    near: float = NEAR
    near_order: float = NEAR
    says_least: bool = False
    extra: Callable[[Way], float] = lambda way: 0.0

    @property
    def most(self) -> int:
        """Return how many compilations one search takes at most.

        The order alone and the smallest are compiled in all ways, others in the usual ones.
        """
        usual = min(self.usual, len(self.ways))
        order = sum(self.holds_order(way) for way in self.ways)
        return order + (MOST_SCHEDULES + _MOST_WHOLE) * usual + 2 * len(self.ways)


def slow_to_compile(seconds: float, most: int) -> str | None:
    """Say what is to come where the plain step took ``seconds`` to compile.

    ``most``: the compilations that follow at most. None: it was quick.
    """
    if seconds < _SLOW_S:
        return None
    return (
        f"XLA took {seconds:.0f} s to compile the plain step; schedules are compiled next, up to {most} "
        "times, of which a few are often enough; a larger budget may need fewer"
    )


@dataclass(eq=False)
class CompilingSearch(Generic[Way, Made]):
    """The search for one budget.

    ``room``: the bytes that temporaries may take. ``rate``: how many the compiler takes for each of the
    graph's, as far as that is known.
    """

    graph: Graph
    room: int
    rate: float
    compiler: Compiler[Way, Made]
    tried: list[Compiled[Way, Made]] = field(default_factory=list)

    def run(self) -> Compiled[Way, Made] | None:
        """Try schedules; return the one with the least price, else the smallest.

        None where no schedule was found.
        """
        self.try_order_alone()
        if not any(self.compiler.extra(each.way) <= 0.0 for each in self.fitting):
            self._try_solved()
            self._try_whole()
        near = math.inf if self.compiler.says_least else self.compiler.near
        if not self.fitting:
            least = self.compiler.least()
            if least is not None:
                self._try(least, self.compiler.ways, near)
        if self.tried and not self.fitting:
            closest = min(self.tried, key=self._worth)
            self._try(closest.schedule, self.compiler.ways, near)
        return min(self.fitting or self.tried, key=self._worth, default=None)

    @property
    def fitting(self) -> list[Compiled[Way, Made]]:
        """Return what keeps the budget, the cheapest first."""
        return sorted((each for each in self.tried if self._fits(each)), key=self._worth)

    def _fits(self, each: Compiled[Way, Made]) -> bool:
        return each.temporary <= self.room

    def _worth(self, each: Compiled[Way, Made]) -> tuple[float, int]:
        return (each.price if self._fits(each) else 0.0), each.temporary

    def try_order_alone(self) -> None:
        """Compile the plain order, where it may fit. What was compiled before is known."""
        plain = Schedule.plain(self.graph)
        held = simulate(self.graph, plain).peak_bytes - self.graph.fixed_bytes
        ways = [way for way in self.compiler.ways if self.compiler.holds_order(way)]
        if ways and _AT_LEAST * held <= self.room:
            self._try(plain, ways, self.compiler.near_order)

    def _try_solved(self) -> None:
        fixed, rate = self.graph.fixed_bytes, self.rate
        aim = MeterAim(
            self.room,
            max(1, int(self.room / rate)),
            rate=rate,
            base_cost=self.graph.base_cost,
            least_rate=_LEAST_RATE,
            used=_USED,
            worth=0.0,
        )
        schedules: list[Schedule] = []
        for _ in range(_SOLVES):
            schedule = self.compiler.solve(fixed + aim.target)
            if schedule is None:
                aim.found_nothing()
            else:
                if not any(schedule.same_steps(known) for known in schedules):
                    schedules.append(schedule)
                found = self._try(schedule, self.compiler.ways[: self.compiler.usual])
                requested = simulate(self.graph, schedule).peak_bytes - fixed
                aim.took(Attempt(aim.target, requested, found.temporary, found.cost))
            if aim.settled or len(schedules) == MOST_SCHEDULES:
                break

    def _try_whole(self) -> None:
        """Try schedules of whole segments, while they are cheaper than what fits.

        Each says what the compiler takes of them. Those that request too much at the least such rate are left
        out.
        """
        most, rate, left = int(_NEAR_WHOLE * self.room / min(1.0, self.rate)), 0.0, _MOST_WHOLE
        for schedule in self.compiler.whole(self.graph.fixed_bytes + most):
            replayed = simulate(self.graph, schedule)
            known = min((each.cost + self._extra(each.way) for each in self.fitting), default=math.inf)
            if not left or float(replayed.cost) >= known:
                return
            requested = max(1, replayed.peak_bytes - self.graph.fixed_bytes)
            if rate * requested > _NEAR_WHOLE * self.room:
                continue
            found = self._try(schedule, self.compiler.ways[: self.compiler.usual])
            left, rate = left - 1, min(rate or math.inf, found.temporary / requested)

    def _try(self, schedule: Schedule, ways: Sequence[Way], near: float | None = None) -> Compiled[Way, Made]:
        """Compile a schedule in one way after another; return the smallest.

        It ends with the first that keeps the budget, or is far over it. What was compiled before is known.
        The ways come first that took the least of the schedules before.
        """
        found = [each for each in self.tried if schedule.same_steps(each.schedule) and each.way in ways]
        cost = float(simulate(self.graph, schedule).cost)
        for way in sorted(ways, key=self._wins, reverse=True):
            smallest = min((each.temporary for each in found), default=None)
            too_far = (near or self.compiler.near) * self.room
            if smallest is not None and (smallest <= self.room or found[-1].temporary > too_far):
                break
            if any(each.way == way for each in found):
                continue
            made, temporary = self.compiler.compile(schedule, way)
            found.append(
                Compiled(schedule, way, made, temporary, cost, self._price(schedule, way, made, cost))
            )
            self.tried.append(found[-1])
        return min(found, key=lambda each: each.temporary)

    def _wins(self, way: Way) -> int:
        """Return of how many schedules a way took less than another way."""
        others = [each for each in self.tried if each.way != way]
        return sum(
            any(
                each.schedule.same_steps(other.schedule) and each.temporary < other.temporary
                for other in others
            )
            for each in self.tried
            if each.way == way
        )

    def _price(self, schedule: Schedule, way: Way, made: Made, cost: float) -> float:
        """Return what a compiled schedule takes, or else its cost.

        Where one cannot be read none of this search can, so prices are of one kind.
        """
        found = None if self.compiler.price is None else self.compiler.price(schedule, made)
        return cost + self._extra(way) if found is None else found

    def _extra(self, way: Way) -> float:
        return self.compiler.extra(way) * self.graph.base_cost


_LEAST = 1 / 16  # of the time limit


@dataclass
class Patience:
    """The share of its time limit that the next solve gets: less, the more before it found nothing in theirs.

    Near the least memory of a graph a solve may neither find a schedule nor prove that there is none, and
    takes all of its time.

    A proof that there is no schedule took no more time than it needed, so it changes nothing.
    """

    share: float = 1.0

    def note(self, found: SolveResult) -> None:
        """Halve the share where ``found`` has no schedule, and no proof."""
        if found.status is SolveStatus.LIMIT:
            self.share = max(_LEAST, self.share / 2)


_SOLVES = 5
_NEAR = 0.02  # of what is known: less is not looked for


def lowered(graph: Graph, known: Schedule, bound: int, solve: Callable[[int], Schedule | None]) -> Schedule:
    """Return ``known``, or a schedule with less memory that solving finds.

    A fast heuristic finds the first schedule. Where ops read many values at once, as fusions do, it may need
    four times what a solver needs.

    ``bound``: bytes that every schedule takes. ``solve``: bytes → a schedule within them, or None. It is
    called five times at most, each time halfway between what is too little and what is known.
    """
    best, low = known, bound
    for _ in range(_SOLVES):
        high = simulate(graph, best).peak_bytes
        asked = (low + high) // 2
        if asked <= low or high - low <= _NEAR * (high - graph.fixed_bytes):
            break
        found = solve(asked)
        if found is None:
            low = asked
        else:
            best = found
    return best
