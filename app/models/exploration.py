"""What one window explores: a graph, and what is known and shown.

What is known of the graph is known under constraints.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject, Signal

from app.models.display_queue import DisplayQueue
from app.presenters.report.page import ReportContent
from app.state.knowledge import ListedSchedule, WhatIf
from app.state.solve import Aim, Asked, Solve
from checkmate.formats.exploration import SavedExploration
from checkmate.ir.graph import Graph
from checkmate.ir.report import MeasuredSchedule
from checkmate.ir.result import SolveResult
from checkmate.solvers.constraints import Constraints, constrained
from checkmate.solvers.known_frontier import Frontier
from checkmate.workers.messages import Checked

__all__ = ["Exploration", "ListedSchedule", "Solve"]


class Exploration(QObject):
    """The window's memory: all that is known, and what is shown.

    There is a frontier for each set of constraints. The window shows one schedule of the current frontier.
    Frontiers only ever improve. A schedule that was found under constraints is one of the plain graph too,
    and is kept for both. A bound that was proved under constraints holds under the same and under further
    ones.

    Attributes:
        aim: None if the slider stands on a budget; otherwise the budget follows the smallest known schedule
            within the aim's cost.
        opened_at: where the slider stood when the graph was opened.
        passing: the costs are estimates that measured ones will replace; until then nothing is solved.
        preparing: what the solver does before it can search, in words; empty if it can search.

    Signals:
        graph_changed: another graph is open.
        known_changed: a point or a bound was added, or the range is known.
        shown_changed: another schedule is on screen.
        solve_changed: the solve goes on, or ended.
        budget_changed: the budget or the aim is another.
        constraints_changed: other constraints apply.
        passing_changed: ``passing`` is another.
        measured_changed: a schedule's step was run and measured.
    """

    graph_changed = Signal()
    known_changed = Signal()
    shown_changed = Signal()
    solve_changed = Signal()
    budget_changed = Signal()
    constraints_changed = Signal()
    passing_changed = Signal()
    measured_changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.graph: Graph | None = None
        self.what_if: WhatIf | None = None
        self.unconstrained: WhatIf | None = None
        self.shown: ListedSchedule | None = None
        self.solve: Solve | None = None
        self.budget_bytes = 0
        self.aim: Aim | None = None
        self.opened_at = Asked()
        self.passing = False
        self.preparing = ""
        self._what_ifs: dict[Constraints, WhatIf] = {}
        self._measured: dict[bytes, MeasuredSchedule] = {}  # by the schedule's steps
        self._display_queue = DisplayQueue(lambda: self.best_for(self.budget_bytes), self._show_if_new, self)

    @property
    def constraints(self) -> Constraints:
        """Return what schedules must not do at present."""
        return Constraints() if self.what_if is None else self.what_if.constraints

    def reported(self) -> ReportContent | None:
        """Return what a report would be about now; None if no graph is open."""
        if self.graph is None or self.shown is None or self.plain is None:
            return None
        said = self.constraints.assumptions
        return ReportContent(self.graph, self.shown, self.plain, tuple(self.known), self.least_possible, said)

    @property
    def frontier(self) -> Frontier | None:
        """Return the frontier under the constraints."""
        return None if self.what_if is None else self.what_if.frontier

    @property
    def known(self) -> list[ListedSchedule]:
        """Return the points of the frontier under the constraints.

        Their peaks rise and their costs fall.
        """
        return [] if self.what_if is None else self.what_if.known

    @property
    def plain(self) -> ListedSchedule | None:
        """Return the plain step: everything is kept, nothing is computed twice."""
        return None if self.what_if is None else self.what_if.plain

    @property
    def range(self) -> dict[str, Any]:
        """Return the budget range: what every schedule needs at least."""
        return {} if self.what_if is None else self.what_if.range

    def set_graph(self, graph: Graph, what_if: WhatIf | None = None) -> None:
        """Start over with ``graph``; the plain step is its first known schedule.

        ``what_if`` is the knowledge without constraints, if it is already made.
        """
        self.graph = graph
        self.unconstrained = self.what_if = what_if or WhatIf(graph, Constraints())
        self._what_ifs = {Constraints(): self.what_if}
        self._measured = {}
        self.shown = self.what_if.plain
        self.solve = None
        self.budget_bytes, self.aim = self.shown.peak_bytes, None
        self.opened_at = self.asked
        self.graph_changed.emit()
        self.constraints_changed.emit()
        self.known_changed.emit()
        self.shown_changed.emit()

    def set_preparing(self, sentence: str) -> None:
        """Set what the solver does before it can search.

        ``preparing`` is in words; empty if the solver can search.
        """
        if sentence != self.preparing:
            self.preparing = sentence
            self.solve_changed.emit()

    def set_passing(self, passing: bool) -> None:
        """Set whether measured costs will replace the ones explored now."""
        if passing != self.passing:
            self.passing = passing
            self.passing_changed.emit()

    def measured(self, graph: Graph, what_if: WhatIf | None = None) -> bool:
        """Replace the estimates by ``graph``, which has measured costs.

        Return whether the user had moved the slider, which then stays where it is, or had set constraints.
        """
        asked, constraints = self.asked, self.constraints
        moved = asked != self.opened_at
        self.set_graph(graph, what_if)
        self.set_passing(False)
        self.set_constraints(constraints)
        if moved:
            self.move(asked)
        return moved or not constraints.is_empty

    def set_constraints(self, constraints: Constraints) -> None:
        """Explore under other constraints.

        What is known under them, or holds under them as well, is there at once.

        Raises:
            UnknownNameError: a constraint names something that the graph does not have.
        """
        before = self.what_if
        if self.graph is None or before is None or constraints == before.constraints:
            return
        what_if = self._what_ifs.get(constraints) or WhatIf(self.graph, constraints)
        others = [other for other in self._what_ifs.values() if other is not what_if and other is not before]
        for other in (before, *others):
            what_if.learn(other, self.budget_bytes)
        self._what_ifs[constraints] = self.what_if = what_if
        self.solve = None
        self.constraints_changed.emit()
        self.known_changed.emit()
        self.solve_changed.emit()
        if not self._follow():
            self.show(what_if.best_for(self.budget_bytes) or what_if.known[0])

    def restore(self, saved: SavedExploration, what_if: WhatIf | None = None) -> None:
        """Start over with what a file holds; leave out schedules that do not hold.

        Raises:
            FormatError, UnknownNameError: the constraints cannot be read, or do not fit this graph.
        """
        constraints = Constraints.from_json(saved.constraints or {})
        constrained(saved.graph, constraints)
        self.set_graph(saved.graph, what_if)
        assert self.unconstrained is not None
        for budget, bound in saved.bounds:
            self.unconstrained.frontier.add_bound(budget, bound)
        self._insert_saved(saved, self.unconstrained)
        self._measured = {_key(one.steps): one for one in saved.measured}
        self.set_constraints(constraints)
        assert self.what_if is not None
        if self.what_if is not self.unconstrained:
            self._insert_saved(saved, self.what_if)
        self.known_changed.emit()
        if saved.budget_bytes:
            self.set_budget(saved.budget_bytes)
        self.opened_at = self.asked

    def _insert_saved(self, saved: SavedExploration, what_if: WhatIf) -> None:
        for result in saved.schedules:
            if result.schedule is not None:
                what_if.insert(
                    result.schedule.steps.tolist(),
                    budget_bytes=result.budget_bytes,
                    solver=result.solver,
                    seconds=result.solve_seconds,
                )

    def saved(self) -> SavedExploration:
        """Return what is saved in a file.

        That is the graph, what is known of it, and what is known under the constraints.
        """
        assert self.graph is not None and self.what_if is not None and self.unconstrained is not None
        found = {f.schedule.steps.tobytes(): f for f in (*self.what_if.known, *self.unconstrained.known)}
        results = tuple(f.result() for f in found.values())
        constraints = None if self.constraints.is_empty else self.constraints.to_json()
        bounds, measured = self.unconstrained.frontier.bounds, tuple(self._measured.values())
        return SavedExploration(self.graph, self.budget_bytes, results, bounds, constraints, measured)

    def set_range(self, facts: dict[str, Any], what_if: WhatIf | None = None) -> None:
        """Take what every schedule needs at least, from the solver process."""
        what_if = what_if or self.what_if
        assert what_if is not None
        what_if.range = facts
        if what_if is self.what_if:
            self.known_changed.emit()

    @property
    def least_bytes(self) -> int:
        """Return the smallest peak that is known to be reachable."""
        return self.known[0].peak_bytes if self.known else 0

    @property
    def least_possible(self) -> int:
        """Return the proved bound: no schedule has a smaller peak."""
        return 0 if self.what_if is None else self.what_if.least_possible

    @property
    def least_of_all(self) -> int:
        """Return the proved bound without constraints.

        No schedule has a smaller peak.
        """
        return 0 if self.unconstrained is None else self.unconstrained.least_possible

    def set_budget(self, budget_bytes: int) -> None:
        """Move the slider and show the best known schedule that fits at once."""
        if self.graph is None or (budget_bytes == self.budget_bytes and self.aim is None):
            return
        self.budget_bytes, self.aim = budget_bytes, None
        self.budget_changed.emit()
        self.show_best()

    @property
    def asked(self) -> Asked:
        """Return where the slider stands."""
        return Asked(self.budget_bytes) if self.aim is None else Asked(aim=self.aim)

    def move(self, asked: Asked) -> None:
        """Move the slider to where ``asked`` says."""
        if asked.aim is None:
            self.set_budget(asked.budget_bytes)
        else:
            self.set_aim(asked.aim)

    def set_aim(self, aim: Aim) -> None:
        """Set the budget to the least memory known within the aim's cost.

        The budget follows as smaller schedules are found.
        """
        if self.graph is None or aim == self.aim:
            return
        self.aim = aim
        if not self._follow():
            self.budget_changed.emit()

    def _follow(self) -> bool:
        """Move the budget to the smallest known schedule of the aim.

        Return whether it moved, or whether another schedule is shown for it.
        """
        least = (
            None
            if self.aim is None or self.what_if is None
            else self.what_if.least_within(self.aim.max_overhead)
        )
        if least is None or (least is self.shown and least.peak_bytes == self.budget_bytes):
            return False
        self.budget_bytes = least.peak_bytes
        self.budget_changed.emit()
        self.show(least)
        return True

    @property
    def least_bound(self) -> int:
        """Return the proved bound of the aim.

        No schedule within the aim's cost has a smaller peak. Without an aim it holds for any cost.
        """
        if self.what_if is None or self.aim is None:
            return self.least_possible
        return self.what_if.least_bound(self.aim.max_overhead)

    def best_for(self, budget_bytes: int) -> ListedSchedule | None:
        """Return the cheapest known schedule whose peak fits."""
        return None if self.what_if is None else self.what_if.best_for(budget_bytes)

    def show_best(self) -> None:
        """Show the best schedule for the budget; a large one follows soon.

        If none fits, the last good one stays on screen.
        """
        self._display_queue.start()

    def show_now(self) -> None:
        """Show at once what is about to be shown."""
        self._display_queue.finish()

    def _show_if_new(self, best: ListedSchedule | None) -> None:
        if best is not None and best is not self.shown:
            self.show(best)

    @property
    def measured_shown(self) -> MeasuredSchedule | None:
        """Return what was measured when the schedule on screen was run.

        It is None if the schedule was not run.
        """
        return None if self.shown is None else self._measured.get(_key(self.shown.schedule.steps))

    def take_measured(self, measured: MeasuredSchedule, result: SolveResult) -> None:
        """Take in what was measured of ``result``'s schedule, and show it.

        The schedule need not have been known before.
        """
        assert self.what_if is not None
        schedule = result.require_schedule()
        self._measured[_key(measured.steps)] = measured
        if self.shown is None or _key(self.shown.schedule.steps) != _key(schedule.steps):
            facts: dict[str, Any] = {"budget_bytes": result.budget_bytes, "solver": result.solver}
            self.add(schedule.steps, **facts, seconds=result.solve_seconds)
            known = next(
                (one for one in self.known if _key(one.schedule.steps) == _key(schedule.steps)), None
            )
            self.show(known or self.what_if.found(result))
        self.measured_changed.emit()

    def frozen_copy(self) -> Exploration:
        """Return a copy that keeps showing what is on screen now.

        What is found or shown here later does not change it.
        """
        other = Exploration()
        other.graph, other.shown, other.budget_bytes = self.graph, self.shown, self.budget_bytes
        other.what_if, other.unconstrained, other._measured = self.what_if, self.unconstrained, self._measured
        return other

    def show(self, found: ListedSchedule) -> None:
        """Show ``found`` at once."""
        self._display_queue.forget()
        self.shown = found
        self.shown_changed.emit()

    def add(
        self,
        steps: np.ndarray,
        *,
        budget_bytes: int,
        solver: str,
        seconds: float,
        what_if: WhatIf | None = None,
        checked: Checked | None = None,
    ) -> bool:
        """Add a schedule after the independent check; False if it does not hold.

        ``checked`` is the result of the check, if it was already made.
        """
        what_if = what_if or self.what_if
        assert what_if is not None and self.unconstrained is not None
        plan = steps.tolist()
        facts: dict[str, Any] = {"budget_bytes": budget_bytes, "solver": solver, "seconds": seconds}
        new = what_if.insert(plan, **facts, report=None if checked is None else checked.limited)
        if new and what_if is not self.unconstrained:
            self.unconstrained.insert(plan, **facts, report=None if checked is None else checked.plain)
        if new and what_if is self.what_if:
            self.known_changed.emit()
            if not self._follow():
                self.show_best()
            self._on_news_of_aim()
        return new is not None

    def add_bound(self, budget_bytes: int, lower_bound: float | None, what_if: WhatIf | None = None) -> None:
        """Add a bound; None says that no schedule fits, which is proved."""
        what_if = what_if or self.what_if
        assert what_if is not None
        new = what_if.frontier.add_bound(budget_bytes, math.inf if lower_bound is None else lower_bound)
        if new and what_if is self.what_if:
            self.known_changed.emit()
            self._on_news_of_aim()

    def _on_news_of_aim(self) -> None:
        """Tell the search for the least memory what the frontier has learned.

        This is done even while nothing is solved.
        """
        solve = self.solve
        if solve is None or self.aim is None or solve.aim != self.aim or solve.what_if is not self.what_if:
            return
        if solve.learn(self.budget_bytes, self.least_bound):
            self.solve_changed.emit()

    def begin_solve(self, job: int) -> None:
        """Begin a solve for the current budget or aim.

        What is already known of an aim is its first result.
        """
        assert self.what_if is not None
        self.solve = Solve(job, self.budget_bytes, time.monotonic(), self.what_if, self.aim)
        if self.aim is not None:
            self.solve.found(0.0, self.budget_bytes)
            if self.least_bound > self.what_if.graph.fixed_bytes:  # a smaller bound adds nothing
                self.solve.proved(0.0, self.least_bound)
        self.solve_changed.emit()


def _key(steps: Sequence[int] | NDArray[np.integer[Any]]) -> bytes:
    return np.asarray(steps, np.int64).tobytes()
