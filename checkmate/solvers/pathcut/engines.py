"""Solve a path-cut program with the library that suits it.

HiGHS solves small programs in a moment, and nothing has to start for it. Of several cuts CP-SAT solves more,
but it rounds each op's cost down, to whole parts of which all ops together have a hundred million. Where its
solution is a schedule that fits, HiGHS proves the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from checkmate.ir.arrays import Steps
from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule
from checkmate.memory.simulate import simulate
from checkmate.progress import Cancelled
from checkmate.solvers.pathcut.cuts import CutProgram
from checkmate.solvers.pathcut.program import CutOutcome, solve_program, steps_from
from checkmate.solvers.pathcut.sat import SatProcess

# CP-SAT is asked where more than _LEAST_S seconds are left, since it takes half a second to load, for a
# program of at most _MOST_COLUMNS columns that HiGHS did not solve in _QUICK_S.
_LEAST_S, _MOST_COLUMNS, _QUICK_S = 4.0, 60_000, 1.0


@dataclass
class Engines:
    """The libraries that solve one prover's programs.

    ``with_sat``: whether CP-SAT may solve any. ``stop`` ends the process that may run beside it.
    """

    graph: Graph
    budget_bytes: int
    workers: int
    with_sat: bool = True
    _sat: SatProcess = field(init=False, default_factory=SatProcess)
    _hard: bool = field(init=False, default=False)  # HiGHS was too slow for one; later ones are larger

    def solve(
        self,
        program: CutProgram,
        *,
        seconds: float,
        cancelled: Cancelled,
        on_bound: Callable[[float], None],
        start: Steps | None,
    ) -> CutOutcome:
        """Return the least cost of the program, or what is known of it in time.

        ``start``: a schedule within the budget.
        """
        until = time.perf_counter() + seconds

        def by_highs(seconds: float, start: Steps | None) -> CutOutcome:
            return solve_program(
                self.graph,
                program,
                time_limit_s=seconds,
                workers=self.workers,
                cancelled=cancelled,
                on_bound=on_bound,
                start=start,
            )

        if not self._suits_sat(program, seconds):
            return by_highs(seconds, start)
        quick: CutOutcome | None = None
        if not self._hard:
            quick = by_highs(min(_QUICK_S, seconds), start)
            if quick.exact or cancelled():
                return quick
            self._hard = True
        found = self._sat.solve(
            self.graph,
            program,
            time_limit_s=until - time.perf_counter(),
            workers=self.workers,
            cancelled=cancelled,
            on_bound=on_bound,
            start=start,
        )
        fits = self._fitting(program, found)
        left = until - time.perf_counter()
        if (fits is not None or not self._sat.usable) and left > 0 and not cancelled():
            rest = by_highs(left, start if fits is None else fits)
            found = replace(rest, bound=max(rest.bound, found.bound))
        return found if quick is None else replace(found, bound=max(quick.bound, found.bound))

    def _suits_sat(self, program: CutProgram, seconds: float) -> bool:
        several = len(program.cuts) > 1 and program.columns <= _MOST_COLUMNS
        return several and seconds > _LEAST_S and self.with_sat and self._sat.usable

    def _fitting(self, program: CutProgram, found: CutOutcome) -> Steps | None:
        """Return the schedule of a solved program; None where it does not fit."""
        if not found.exact or found.runs is None:
            return None
        steps = steps_from(self.graph, program, found.runs)
        peak = simulate(self.graph, Schedule.of(self.graph, steps)).peak_bytes
        return steps if peak <= self.budget_bytes else None

    def stop(self) -> None:
        """End CP-SAT's process; the next program that needs it starts another."""
        self._sat.close()
