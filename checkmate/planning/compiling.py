"""Choose which schedules to compile, until one keeps a budget.

A compiled step's bytes differ from the graph's, because the compiler fuses ops, and chooses the order of ops
that do not wait. First the plain order is compiled, in the ways in which it may save memory. Then schedules
are solved for and compiled, and each tells the next target (``checkmate.planning.aim``). Results are
reproducible.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic

from checkmate.backends.protocol import Compilation, Compiled, CompiledFit, Compiler, Made, Way
from checkmate.ir import Graph, Schedule, SolveResult, SolveStatus
from checkmate.memory.simulate import simulate
from checkmate.planning.aim import Aim, Reading
from checkmate.planning.plan_request import PlanRequest
from checkmate.planning.schedule_solver import ScheduleSolver
from checkmate.planning.solving import keep_everything_peak, solve
from checkmate.progress import Progress, stop_if
from checkmate.solvers.certify import with_schedule
from checkmate.solvers.problem import Problem
from checkmate.units import format_bytes

MOST_SCHEDULES = 6  # solved for and compiled, besides the plain order and the smallest schedule
_SOLVES = 10  # the most solves for these; some return a known schedule again
_AT_LEAST = 0.5  # of the graph's bytes: the least that the plain order may take; 0.70 to 1.0 was measured
_LEAST_RATE = 0.1  # the least compiled bytes per byte of the graph
_NEAR_WHOLE = 1.05  # of the room: the most that a schedule of whole segments may request; it may take less
_MOST_WHOLE = 4  # schedules of whole segments to compile
_USED = 0.95  # of the room: a schedule that takes this much uses the budget well enough
_LEAST_PATIENCE = 1 / 16  # of the time limit: the least time of a solve
_LEAST_SOLVES, _NEAR_LEAST = 5, 0.02  # solves for the least memory; the precision that ends them
# A share of the plain step's cost: recomputing that costs less is preferred to making all steps wait.
_WORTH = 0.03
# A share of the plain step's cost: no further group of ways is tried if a fitting schedule costs at most this
# much more than the cheapest schedule that requests no more than the room.
_GOOD = 0.15
_SLOW_S = 10.0  # if a compilation takes longer, users are told what is to come


def _most(compiler: Compiler[Way, Made]) -> int:
    """Return how many compilations one search takes at most."""
    usual = min(compiler.usual, len(compiler.ways))
    order = sum(compiler.holds_order(way) for way in compiler.ways)
    return order + (MOST_SCHEDULES + _MOST_WHOLE) * usual + 2 * len(compiler.ways)


def _slow_to_compile(seconds: float, most: int) -> str | None:
    """Return a sentence on how long compiling may take; None if compiling the plain step was quick."""
    if seconds < _SLOW_S:
        return None
    return (
        f"XLA took {seconds:.0f} s to compile the plain step; schedules are compiled next, up to {most} "
        "times, of which a few are often enough; a larger budget may need fewer"
    )


@dataclass(eq=False)
class Solves:
    """The schedules that a solver finds for one graph; each budget is solved once. ``segments``: prefer
    schedules that recompute whole segments. ``results``: of all solves."""

    graph: Graph
    solver: ScheduleSolver
    segments: bool = True
    results: list[SolveResult] = field(default_factory=list)
    _solved: dict[int, Schedule | None] = field(default_factory=dict)
    _patience: float = 1.0  # the share of its time limit that the next solve gets

    def within(self, asked: int) -> Schedule | None:
        """Return a schedule that requests at most ``asked`` bytes; None if none was found. Near the least
        memory a solve may use its whole time limit and find nothing; then the next one gets half the time."""
        if asked not in self._solved:
            self.solver.report(Progress("solve", message=f"solving for {format_bytes(asked)}"))
            seconds = self._patience * self.solver.options.time_limit_s
            found = self.solver.solve(self.graph, asked, seconds=seconds)
            stop_if(self.solver.cancelled)
            if found.status is SolveStatus.LIMIT:
                self._patience = max(_LEAST_PATIENCE, self._patience / 2)
            if self.segments:
                found = self.solver.in_segments(self.graph, found)
            self._solved[asked] = self._kept(found)
        return self._solved[asked]

    def least(self) -> Schedule:
        """Return a schedule with nearly the least memory. The first one comes from a fast heuristic, which
        may need four times too much if ops read many values, as fusions do. So the solver then bisects a few
        times between the bound and the best known."""
        known = self.solver.minimum(self.graph)
        best, low = known.schedule, known.bound.bytes
        problem = Problem(self.graph, known.bytes)
        self._kept(with_schedule(problem, self.solver.name, best.steps, lower_bound=None, seconds=0.0))
        for _ in range(_LEAST_SOLVES):
            high = simulate(self.graph, best).peak_bytes
            asked = (low + high) // 2
            if asked <= low or high - low <= _NEAR_LEAST * (high - self.graph.fixed_bytes):
                break
            found = self.within(asked)
            if found is None:
                low = asked
            else:
                best = found
        return best

    def whole(self, asked: int) -> Iterator[Schedule]:
        """Yield schedules that recompute all between checkpoints, the cheapest first."""
        for found in self.solver.whole_segments(self.graph, asked):
            schedule = self._kept(found)
            if schedule is not None:
                yield schedule

    def _kept(self, result: SolveResult) -> Schedule | None:
        self.results.append(result)
        return result.schedule


class CompiledSearch(Generic[Way, Made]):
    """Looks for schedules of one step by compiling them; later searches reuse what was compiled. ``request``
    tells the user if the step is slow to compile."""

    def __init__(
        self,
        step: Compilation[Way, Made],
        solver: ScheduleSolver,
        request: PlanRequest | None = None,
    ) -> None:
        self._step, self._solver, self._request = step, solver, request
        self._solves: dict[int, Solves] = {}  # by the graph that is solved
        self.tried: list[Compiled[Way, Made]] = []
        self._compilations, self._seconds = 1, step.plain_seconds

    def fit(self, goal: int) -> CompiledFit[Way, Made]:
        """Return the cheapest schedule whose compiled step takes at most ``goal`` bytes, else the smallest
        one. The step stays plain if that fits, or if no schedule takes less."""
        step = self._step
        if step.plain_bytes <= goal:
            return self._fit(goal, None)
        most = sum(map(_most, (*step.compilers, *step.last_resort)))
        if self._request is not None and (slow := _slow_to_compile(step.plain_seconds, most)):
            self._request.tell(slow)
        room = max(1, goal - step.fixed_bytes)
        searches = [self._search(compiler, room, most) for compiler in step.compilers]
        self._search_all(searches, room)
        for compiler in () if self._fitting(room) else step.last_resort:
            searches.append(self._search(compiler, room, most))
            searches[-1].run()
        return self._fit(goal, self._best(room))

    def as_given(self, result: SolveResult, goal: int) -> CompiledFit[Way, Made]:
        """Compile ``result`` in one way after another until one takes at most ``goal`` bytes; else return the
        way that takes least."""
        room, schedule = goal - self._step.fixed_bytes, result.require_schedule()
        self._solves_of(self._step.compilers[0]).results.append(result)
        tried: list[Compiled[Way, Made]] = []
        for compiler in self._step.compilers:
            for way in compiler.ways:
                tried.append(self.compiled(compiler, schedule, way, 0))
                if tried[-1].temporary <= room:
                    return self._fit(goal, self._finished(tried[-1]))
        return self._fit(goal, self._finished(min(tried, key=lambda each: each.temporary)))

    def least_bytes(self) -> int:
        compiler = self._step.compilers[0]
        schedule = self._solves_of(compiler).least()
        return self._step.fixed_bytes + self.compiled(compiler, schedule, compiler.ways[0], 0).temporary

    def compiled(
        self, compiler: Compiler[Way, Made], schedule: Schedule, way: Way, most: int
    ) -> Compiled[Way, Made]:
        """Compile a schedule, unless that was done. ``most``: the number of compilations to expect, for the
        progress message; 0: unknown."""
        for each in self.tried:
            if each.way == way and schedule.same_steps(each.schedule):
                return each
        stop_if(self._solver.cancelled)
        number = f"compiling attempt {self._compilations}" + (f" of {most} at most" if most else "")
        plain = f"the plain step took {self._step.plain_seconds:.0f} s"
        self._solver.report(Progress("compile", message=f"{number} with XLA; {plain}"))
        started = time.perf_counter()
        made, temporary = compiler.compile(schedule, way)
        self._note(started)
        cost = float(simulate(compiler.graph, schedule).cost)
        price = compiler.price(schedule, made)
        if price is None:
            price = cost + compiler.extra(way) * compiler.graph.base_cost
        self.tried.append(Compiled(schedule, way, made, temporary, cost, price))
        return self.tried[-1]

    def _note(self, started: float) -> None:
        self._compilations += 1
        self._seconds += time.perf_counter() - started

    def _search(self, compiler: Compiler[Way, Made], room: int, most: int) -> GroupSearch[Way, Made]:
        return GroupSearch(self, self._solves_of(compiler), room, compiler, most)

    def _search_all(self, searches: Sequence[GroupSearch[Way, Made]], room: int) -> None:
        """Search one group of ways after another, until a good schedule fits. First, every group tries the
        plain order, without recomputation. If that fits only in a later group, it is good enough unless
        recomputation would cost less than making all steps wait."""
        for search in searches if len(searches) > 1 else ():
            search.try_order_alone()
            if search.fitting and (search is searches[0] or self._least_cost(room) >= 1 + _WORTH):
                return
        for search in searches:
            if len(searches) == 1 or not search.fitting:
                search.run()
            if search is searches[-1]:
                return
            enough = (self._least_cost(room) + _GOOD) * self._step.graph.base_cost
            if any(each.cost <= enough for each in self._fitting(room)):
                return

    def _least_cost(self, room: int) -> float:
        """Return the cost, as a multiple of the plain step's, of a schedule that requests at most
        ``room``."""
        graph = self._step.graph
        asked = self._solves_of(self._step.compilers[0]).within(graph.fixed_bytes + room)
        return 1.0 if asked is None else float(simulate(graph, asked).cost) / graph.base_cost

    def _solves_of(self, compiler: Compiler[Way, Made]) -> Solves:
        key = id(compiler.graph)
        if key not in self._solves:
            self._solves[key] = Solves(compiler.graph, self._solver, compiler.segments)
        return self._solves[key]

    def _fitting(self, room: int) -> list[Compiled[Way, Made]]:
        """Return the compiled schedules that fit ``room``, by estimated time."""
        found = [each for each in self.tried if each.temporary <= room]
        return sorted(found, key=lambda each: (each.price, each.temporary))

    def _best(self, room: int) -> Compiled[Way, Made] | None:
        """Return the first fitting schedule that still fits with its final options, else the smallest one;
        None if the plain step is smaller."""
        for each in self._fitting(room):
            finished = self._finished(each)
            if finished.temporary <= room:
                return finished
        least = min(self.tried, key=lambda each: each.temporary, default=None)
        plain = self._step.plain_bytes - self._step.fixed_bytes
        return None if least is None or least.temporary >= plain else self._finished(least)

    def _finished(self, each: Compiled[Way, Made]) -> Compiled[Way, Made]:
        started = time.perf_counter()
        compiler = next(compiler for compiler in self._step.compilers if each.way in compiler.ways)
        found = compiler.finished(each)
        if found is not each:
            self._note(started)
        return found

    def _fit(self, goal: int, chosen: Compiled[Way, Made] | None) -> CompiledFit[Way, Made]:
        results = [result for solves in self._solves.values() for result in solves.results]
        if chosen is not None:  # it may be of the last resort's graph: same ops, other sizes
            chosen = replace(chosen, schedule=Schedule.of(self._step.graph, chosen.schedule.steps))
        return CompiledFit(
            self._step.graph if self.tried else None,
            self._step.plain_bytes,
            self._step.fixed_bytes,
            goal,
            chosen,
            None if chosen is None else self._result_of(chosen.schedule, results),
            self._compilations,
            self._seconds,
            sum(result.solve_seconds for result in results),
        )

    def _result_of(self, schedule: Schedule, results: Sequence[SolveResult]) -> SolveResult:
        """Return the solver's result for ``schedule``; the plain order has none, and gets one. What was
        proved for the last resort's graph, which counts fewer bytes, does not hold for the step's own
        graph."""
        graph = self._step.graph
        for result in results:
            if result.schedule is None or not schedule.same_steps(result.schedule):
                continue
            if result.schedule.graph_fingerprint == graph.fingerprint:
                return result
            replayed = simulate(graph, schedule)
            return replace(
                result,
                schedule=schedule,
                status=SolveStatus.FEASIBLE,
                budget_bytes=max(result.budget_bytes, replayed.peak_bytes),
                peak_bytes=replayed.peak_bytes,
                lower_bound=graph.base_cost,
                assumptions=(),
            )
        return solve(graph, keep_everything_peak(graph), solver="keep-all")


class GroupSearch(Generic[Way, Made]):
    """The search in one group of ways, for temporaries of at most ``room`` bytes."""

    def __init__(
        self,
        search: CompiledSearch[Way, Made],
        solves: Solves,
        room: int,
        compiler: Compiler[Way, Made],
        most: int,
    ) -> None:
        self._search, self.solves, self.room, self.compiler = search, solves, room, compiler
        self.graph, self._most = solves.graph, most

    @property
    def tried(self) -> list[Compiled[Way, Made]]:
        return [each for each in self._search.tried if each.way in self.compiler.ways]

    def run(self) -> None:
        self.try_order_alone()
        if not self._order_fits():
            self._try_solved()
            self._try_whole()
        near = math.inf if self.compiler.says_least else self.compiler.near
        if not self.fitting:
            self._try(self.solves.least(), self.compiler.ways, near)
        if self.tried and not self.fitting:
            closest = min(self.tried, key=self._worth)
            self._try(closest.schedule, self.compiler.ways, near)

    def _order_fits(self) -> bool:
        """Whether the plain order fits in a way that takes no extra time."""
        return any(
            not each.schedule.recomputations and self.compiler.extra(each.way) <= 0.0 for each in self.fitting
        )

    @property
    def fitting(self) -> list[Compiled[Way, Made]]:
        """The compiled schedules that fit, by estimated time."""
        return sorted((each for each in self.tried if self._fits(each)), key=self._worth)

    def _fits(self, each: Compiled[Way, Made]) -> bool:
        return each.temporary <= self.room

    def _worth(self, each: Compiled[Way, Made]) -> tuple[float, int]:
        return (each.price if self._fits(each) else 0.0), each.temporary

    def try_order_alone(self) -> None:
        plain = Schedule.plain(self.graph)
        held = simulate(self.graph, plain).peak_bytes - self.graph.fixed_bytes
        ways = [way for way in self.compiler.ways if self.compiler.holds_order(way)]
        if ways and _AT_LEAST * held <= self.room:
            self._try(plain, ways, self.compiler.near_order)

    def _try_solved(self) -> None:
        fixed, rate = self.graph.fixed_bytes, self.compiler.rate
        aim = Aim(
            self.room,
            max(1, int(self.room / rate)),
            rate=rate,
            base_cost=self.graph.base_cost,
            least_rate=_LEAST_RATE,
            used=_USED,
            worth=0.0,
        )
        schedules: list[Schedule] = []
        for target in aim.targets(_SOLVES):
            schedule = self.solves.within(fixed + target)
            if schedule is None:
                aim.found_nothing()
                continue
            if not any(schedule.same_steps(known) for known in schedules):
                schedules.append(schedule)
            found = self._try(schedule, self.compiler.ways[: self.compiler.usual])
            requested = simulate(self.graph, schedule).peak_bytes - fixed
            aim.took(Reading(target, requested, found.temporary, found.cost))
            if len(schedules) == MOST_SCHEDULES:
                break

    def _try_whole(self) -> None:
        """Try schedules that recompute whole segments, as long as they are cheaper than what fits."""
        most, rate, left = int(_NEAR_WHOLE * self.room / min(1.0, self.compiler.rate)), 0.0, _MOST_WHOLE
        for schedule in self.solves.whole(self.graph.fixed_bytes + most):
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
        """Compile a schedule in one way after another, and return the result that takes least. Stop after one
        that fits, or is so far over that the other ways will not fit. Ways that took less memory than others
        for earlier schedules come first."""
        found = [each for each in self.tried if schedule.same_steps(each.schedule) and each.way in ways]
        for way in sorted(ways, key=self._wins, reverse=True):
            smallest = min((each.temporary for each in found), default=None)
            too_far = (near or self.compiler.near) * self.room
            if smallest is not None and (smallest <= self.room or found[-1].temporary > too_far):
                break
            if any(each.way == way for each in found):
                continue
            found.append(self._search.compiled(self.compiler, schedule, way, self._most))
        return min(found, key=lambda each: each.temporary)

    def _wins(self, way: Way) -> int:
        """Count the schedules for which ``way`` needed less memory than some other way."""
        others = [each for each in self.tried if each.way != way]
        return sum(
            any(
                each.schedule.same_steps(other.schedule) and each.temporary < other.temporary
                for other in others
            )
            for each in self.tried
            if each.way == way
        )

    def _extra(self, way: Way) -> float:
        return self.compiler.extra(way) * self.graph.base_cost
