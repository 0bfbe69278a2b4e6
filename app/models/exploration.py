"""State of one window: a graph, the frontier of each set of constraints, and the displayed schedule."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from PySide6.QtCore import QObject, Signal

from app.models.listing import Listing
from app.presenters.report_page import ReportContent
from app.state.knowledge import ListedSchedule, WhatIf, steps_key
from app.state.saved import (
    ProvedUnder,
    Waiting,
    facts_of,
    insert_result,
    insert_saved,
    listed,
    proved_to_save,
    read_missed,
    read_proved,
    read_waiting,
    restored,
    schedules_to_save,
)
from app.state.solve import Aim, SliderTarget, Solve, Standing
from app.workers.background import Background, on
from checkmate.formats.exploration import SavedExploration
from checkmate.ir import Graph, SolveResult
from checkmate.ir.result import MeasuredSchedule
from checkmate.solvers.constraints import Constraints, constrained
from checkmate.solvers.known_frontier import Frontier
from checkmate.workers.window_messages import Checked

_AT_ONCE = 3000  # steps; for a longer schedule, computing what is drawn takes longer than a frame
_POLL_MS = 5
_LOOKED_AT_S = 2.0  # a solve that ran longer is listed with its best schedule, even if another replaces it


class Exploration(QObject):
    """State of one window: graph, frontiers, displayed schedule and slider.

    There is a frontier for each set of constraints; a schedule of the current one is shown. Frontiers only
    improve. A schedule found under constraints is valid without them too, and is kept in both frontiers. A
    bound proved under constraints also holds under stricter ones.

    Attributes:
        aim: the cost limit if the slider asks for the least memory; the budget is then the smallest known
            peak within that cost. None if the slider asks for a budget.
        opened_at: the slider's request when the graph was opened.
        passing: whether costs are still estimates; nothing is solved until measured costs replace them.
        preparing: a sentence while the solver is not ready to search; else empty.
        step: the playhead's step; None if it follows the peak.
    """

    leaving = Signal()  # another graph is about to take the place of this one
    graph_changed = Signal()
    known_changed = Signal()
    shown_changed = Signal()
    standing_changed = Signal()
    solve_changed = Signal()
    budget_changed = Signal()
    constraints_changed = Signal()
    passing_changed = Signal()
    measured_changed = Signal()
    step_changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.graph: Graph | None = None
        self.what_if: WhatIf | None = None
        self.unconstrained: WhatIf | None = None
        self.shown: ListedSchedule | None = None
        self.solve: Solve | None = None
        self.budget_bytes = 0
        self.aim: Aim | None = None
        self.opened_at = SliderTarget()
        self.passing = False
        self.preparing = ""
        self.step: int | None = None
        self.standing: Standing | None = None
        self.listing = Listing(self)
        self._chosen = False  # whether the user chose the displayed schedule, in place of the budget's best
        self._what_ifs: dict[Constraints, WhatIf] = {}
        self._proved: tuple[ProvedUnder, ...] = ()  # bounds read from the opened file
        self._waiting: Waiting = {}  # schedules of the file, by constraints
        self._measured: dict[bytes, MeasuredSchedule] = {}  # by the schedule's steps
        self._missed: dict[bytes, int] = {}  # shared by all ``_what_ifs``
        self._waits = False  # whether a schedule that is being prepared will be shown
        self._drawing = Background(self, poll_ms=_POLL_MS)
        self._drawing.done.connect(self._on_prepared)
        # Connected before any view, so that views find the standing updated.
        on(self._stand, self.graph_changed, self.known_changed, self.shown_changed)
        on(self._stand, self.budget_changed, self.solve_changed)

    @property
    def constraints(self) -> Constraints:
        return Constraints() if self.what_if is None else self.what_if.constraints

    def reported(self) -> ReportContent | None:
        if self.graph is None or self.shown is None or self.plain is None:
            return None
        said = self.constraints.assumptions
        return ReportContent(self.graph, self.shown, self.plain, tuple(self.known), self.least_possible, said)

    @property
    def running_solve(self) -> Solve | None:
        return self.solve if self.solve is not None and self.solve.running else None

    @property
    def graph_body(self) -> bytes:
        assert self.unconstrained is not None
        return self.unconstrained.graph_body

    @property
    def frontier(self) -> Frontier | None:
        return None if self.what_if is None else self.what_if.frontier

    @property
    def known(self) -> list[ListedSchedule]:
        """The points of the frontier under the constraints. Their peaks rise and their costs fall."""
        return [] if self.what_if is None else self.what_if.known

    @property
    def offered(self) -> list[ListedSchedule]:
        """Those of ``known`` that no export has found over their budget."""
        return [] if self.what_if is None else self.what_if.offered

    @property
    def plain(self) -> ListedSchedule | None:
        return None if self.what_if is None else self.what_if.plain

    def set_graph(self, graph: Graph, what_if: WhatIf | None = None) -> None:
        """Start over. ``what_if`` is the knowledge without constraints, if it is already made."""
        if self.graph is not None:
            self.leaving.emit()
        self.graph = graph
        self.unconstrained = self.what_if = what_if or WhatIf(graph, Constraints())
        self._what_ifs = {Constraints(): self.what_if}
        self._proved, self._measured, self._waiting, self._missed = (), {}, {}, self.what_if.missed
        self.shown, self._chosen = self.what_if.plain, False
        self.solve = self.step = None
        self.budget_bytes, self.aim = self.shown.peak_bytes, None
        self.opened_at = self.asked
        self.listing.restart()
        self.graph_changed.emit()
        self.constraints_changed.emit()
        self.known_changed.emit()
        self.shown_changed.emit()

    def forget(self) -> None:
        self.graph = self.what_if = self.unconstrained = self.shown = self.solve = self.standing = None
        self._what_ifs, self._proved, self._measured, self._waiting = {}, (), {}, {}
        self._waits, self.step = False, None
        self.listing.restart()

    def set_preparing(self, sentence: str) -> None:
        if sentence != self.preparing:
            self.preparing = sentence
            self.solve_changed.emit()

    def put_step(self, step: int | None) -> None:
        if step != self.step:
            self.step = step
            self.step_changed.emit()

    def set_passing(self, passing: bool) -> None:
        if passing != self.passing:
            self.passing = passing
            self.passing_changed.emit()

    def measured(
        self, graph: Graph, what_if: WhatIf | None = None, saved: SavedExploration | None = None
    ) -> bool:
        """Replace the graph with estimated costs by the one with measured costs. ``saved``: an earlier
        exploration of it. Return whether the user has moved the slider or set constraints meanwhile."""
        asked, constraints, step = self.asked, self.constraints, self.step
        moved = asked != self.opened_at
        if saved is None:
            self.set_graph(graph, what_if)
        else:
            self.restore(saved, what_if)
        self.set_passing(False)
        if saved is None or not constraints.is_empty:
            self.set_constraints(constraints)
        if moved:
            self.move(asked)
        if step is not None:
            self.put_step(step)
        return moved or not constraints.is_empty

    def set_constraints(self, constraints: Constraints) -> None:
        """Explore under other constraints, which must name parts of this graph."""
        before = self.what_if
        if self.graph is None or before is None or constraints == before.constraints:
            return
        what_if = self._what_if_under(constraints)
        others = [other for other in self._what_ifs.values() if other is not what_if and other is not before]
        for other in (before, *others):
            what_if.learn(other, self.budget_bytes)
        self.what_if, self.solve, self._chosen = what_if, None, False
        self.constraints_changed.emit()
        self.known_changed.emit()
        self.solve_changed.emit()
        if not self._follow():
            self._put(what_if.best_for(self.budget_bytes) or what_if.known[0])

    def _what_if_under(self, constraints: Constraints) -> WhatIf:
        assert self.graph is not None
        if constraints not in self._what_ifs:
            what_if = self._what_ifs[constraints] = WhatIf(self.graph, constraints)
            what_if.missed = self._missed
            for proved in self._proved:
                proved.tell(what_if)
            for result in self._waiting.get(constraints, ()):
                insert_result(result, what_if)
        return self._what_ifs[constraints]

    def restore(self, saved: SavedExploration, what_if: WhatIf | None = None) -> None:
        """Start over with what a file holds; leave out schedules that do not hold.

        Raises:
            FormatError, UnknownNameError: the constraints cannot be read, or do not fit this graph.
        """
        constraints = Constraints.from_json(saved.constraints or {})
        constrained(saved.graph, constraints)
        under = {place: Constraints.from_json(own.constraints or {}) for place, own in saved.own.items()}
        for one in set(under.values()):
            constrained(saved.graph, one)
        proved, waiting = read_proved(saved), read_waiting(saved)
        self.set_graph(saved.graph, what_if)
        self._proved, self._waiting = proved, waiting
        self._missed.update(read_missed(saved))
        assert self.unconstrained is not None
        for budget, bound in saved.bounds:
            self.unconstrained.frontier.add_bound(budget, bound)
        insert_saved(saved, self.unconstrained)
        self._measured = {steps_key(one.steps): one for one in saved.measured}
        self.set_constraints(constraints)
        assert self.what_if is not None
        if self.what_if is not self.unconstrained:
            insert_saved(saved, self.what_if)
        entries = {}
        for place, own in saved.own.items():
            what_if = self._what_if_under(under[place])
            insert_result(saved.schedules[place], what_if)
            if found := listed(saved.schedules[place], what_if):
                entries[found.key] = restored(found, own)
        self.listing.restart(entries)
        self.known_changed.emit()
        if saved.budget_bytes:
            self.set_budget(saved.budget_bytes)
        self.opened_at = self.asked
        self.put_step(saved.step)

    def saved(self) -> SavedExploration:
        assert self.graph is not None and self.what_if is not None and self.unconstrained is not None
        waiting = {under: found for under, found in self._waiting.items() if under not in self._what_ifs}
        results, own, under, missed = schedules_to_save(
            self.unconstrained, self._what_ifs.values(), self.listing.own, waiting
        )
        return SavedExploration(
            self.graph,
            self.budget_bytes,
            results,
            self.unconstrained.frontier.bounds,
            None if self.constraints.is_empty else self.constraints.to_json(),
            tuple(self._measured.values()),
            own,
            proved_to_save(self.unconstrained.frontier, self._what_ifs, self._proved),
            under,
            missed,
            self.step,
        )

    def set_needed(self, needed_bytes: int, what_if: WhatIf) -> None:
        what_if.needed_bytes = needed_bytes
        if what_if is self.what_if:
            self.known_changed.emit()

    @property
    def least_bytes(self) -> int:
        return self.known[0].peak_bytes if self.known else 0

    @property
    def least_possible(self) -> int:
        return 0 if self.what_if is None else self.what_if.least_possible

    @property
    def least_of_all(self) -> int:
        return 0 if self.unconstrained is None else self.unconstrained.least_possible

    def set_budget(self, budget_bytes: int) -> None:
        """Move the slider and show the best known schedule, also for one that was chosen by hand."""
        if self.graph is None:
            return
        before = self.asked, self._chosen
        self.budget_bytes, self.aim, self._chosen = budget_bytes, None, False
        if before != (self.asked, False):
            self.budget_changed.emit()
        self.show_best()

    @property
    def asked(self) -> SliderTarget:
        return SliderTarget(self.budget_bytes) if self.aim is None else SliderTarget(aim=self.aim)

    def move(self, asked: SliderTarget) -> None:
        if asked.aim is None:
            self.set_budget(asked.budget_bytes)
        else:
            self.set_aim(asked.aim)

    def set_aim(self, aim: Aim) -> None:
        if self.graph is None or (aim == self.aim and not self._chosen):
            return
        self.aim, self._chosen = aim, False
        if not self._follow():
            self.budget_changed.emit()

    def _follow(self) -> bool:
        """Move the budget to the smallest peak within the aim's cost. Return whether anything changed."""
        least = (
            None
            if self.aim is None or self.what_if is None
            else self.what_if.least_within(self.aim.max_overhead)
        )
        if least is None:
            return False
        moved, other = least.peak_bytes != self.budget_bytes, least is not self.shown and not self._chosen
        if moved or other:
            self.budget_bytes = least.peak_bytes
            self.budget_changed.emit()
        if other:
            self._put(least)
        return moved or other

    @property
    def least_bound(self) -> int:
        """The proved bound on the peak within the aim's cost. Without an aim it holds for any cost."""
        if self.what_if is None or self.aim is None:
            return self.least_possible
        return self.what_if.least_bound(self.aim.max_overhead)

    def best_for(self, budget_bytes: int) -> ListedSchedule | None:
        return None if self.what_if is None else self.what_if.best_for(budget_bytes)

    def show_best(self) -> None:
        """Show the best schedule for the budget, or the smallest known if none fits; a large schedule is
        prepared in a thread first."""
        best = self._due()
        if best is not None and len(best.schedule.steps) > _AT_ONCE and not best.prepared:
            self._waits = True
            self._drawing.start(best.prepare)
        else:
            self._waits = False
            self._show_if_new(best)

    def _on_prepared(self) -> None:
        if self._waits:
            self.show_best()

    def _due(self) -> ListedSchedule | None:
        if self._chosen or self.what_if is None:
            return self.shown
        return self.what_if.best_to_show(self.budget_bytes) or self.what_if.known[0]

    def show_now(self) -> None:
        if self._waits:
            self._waits = False
            self._show_if_new(self._due())

    def _show_if_new(self, best: ListedSchedule | None) -> None:
        if best is not None and best is not self.shown:
            self._put(best)

    @property
    def measured_shown(self) -> MeasuredSchedule | None:
        return None if self.shown is None else self._measured.get(self.shown.key)

    def take_measured(
        self,
        measured: MeasuredSchedule,
        result: SolveResult,
        asked: ListedSchedule | None = None,
        budget_bytes: int = 0,
    ) -> None:
        """Show the schedule that an export wrote, with its measurement. If that is not the ``asked`` one, the
        export measured the asked one over ``budget_bytes``."""
        assert self.what_if is not None
        schedule = result.require_schedule()
        if asked is not None and asked.key != steps_key(schedule.steps):
            self._missed[asked.key] = budget_bytes
            self.known_changed.emit()
        self._measured[steps_key(measured.steps)] = measured
        if self.shown is None or self.shown.key != steps_key(schedule.steps):
            self.add(schedule.steps, **facts_of(result))
            if found := listed(result, self.what_if):
                self.show(found)
        self.measured_changed.emit()

    def frozen_copy(self) -> Exploration:
        other = Exploration()
        other.graph, other.shown, other.budget_bytes = self.graph, self.shown, self.budget_bytes
        other.what_if, other.unconstrained, other._measured = self.what_if, self.unconstrained, self._measured
        return other

    def show(self, found: ListedSchedule) -> None:
        """Show ``found``, which the user chose, until the slider is moved or its budget is asked for."""
        self._chosen = False
        self._chosen = found is not self._due()
        self._put(found)

    @property
    def by_hand(self) -> bool:
        return self._chosen

    @property
    def better(self) -> ListedSchedule | None:
        if self.shown is None or self.what_if is None:
            return None
        return self.what_if.better_than(self.shown, self.budget_bytes)

    def _put(self, found: ListedSchedule) -> None:
        self._waits = False
        self.shown = found
        self.shown_changed.emit()

    def _stand(self) -> None:
        if self.what_if is None or self.shown is None:
            return
        running = self.running_solve
        sought = running is not None and running.asked == self.asked
        standing = Standing.of(
            self.what_if,
            self.budget_bytes,
            self.shown,
            chosen=self._chosen,
            sought=sought,
            coming=self._waits,
        )
        if standing != self.standing:
            self.standing = standing
            self.standing_changed.emit()

    def add(
        self,
        steps: np.ndarray,
        *,
        budget_bytes: int,
        solver: str,
        seconds: float,
        what_if: WhatIf | None = None,
        checked: Checked | None = None,
        asked: bool = True,
        baseline: bool = False,
    ) -> bool:
        """Add a schedule after the independent check; return False if it is not valid.

        ``checked``: the check's result, if it was made. Unless it was ``asked`` for, it replaces the one on
        screen only where that does not fit the budget. ``baseline``: it is a published method's, and is
        listed even where known ones beat it.
        """
        what_if = what_if or self.what_if
        assert what_if is not None and self.unconstrained is not None
        plan = steps.tolist()
        facts: dict[str, Any] = {"budget_bytes": budget_bytes, "solver": solver, "seconds": seconds}
        limited = None if checked is None else checked.limited
        if baseline:
            found = what_if.listed(plan, **facts, report=limited)
            if found is not None and what_if.add_baseline(found) and what_if is self.what_if:
                self.known_changed.emit()
            return found is not None
        new = what_if.insert(plan, **facts, report=limited)
        if new and what_if is not self.unconstrained:
            self.unconstrained.insert(plan, **facts, report=None if checked is None else checked.plain)
        if new and what_if is self.what_if:
            self.known_changed.emit()
            unfit = self.shown is None or self.shown.peak_bytes > self.budget_bytes
            if not self._follow() and (asked or unfit):
                self.show_best()
            self._tell_solve()
        return new is not None

    def add_bound(self, budget_bytes: int, lower_bound: float | None, what_if: WhatIf | None = None) -> None:
        """Add a proved bound; None: it is proved that no schedule fits."""
        what_if = what_if or self.what_if
        assert what_if is not None
        new = what_if.frontier.add_bound(budget_bytes, math.inf if lower_bound is None else lower_bound)
        if new and what_if is self.what_if:
            self.known_changed.emit()
            self._tell_solve()

    def _tell_solve(self) -> None:
        """Add the frontier's news to the solve, even after its end: solving panel and list must agree."""
        solve = self.solve
        if solve is None or solve.asked != self.asked or solve.what_if is not self.what_if:
            return
        if solve.learn(*self._known_of(solve)):
            self.solve_changed.emit()

    def _known_of(self, solve: Solve) -> tuple[float | None, float]:
        """Return (best known, proved bound) for the solve's request: peaks for an aim, else costs. The bound
        is 0 where none is proved."""
        what_if = solve.what_if
        if solve.aim is not None:
            bound = self.least_bound
            return self.budget_bytes, bound if bound > what_if.graph.fixed_bytes else 0.0
        return what_if.known_cost(solve.budget_bytes)

    def answered(self) -> None:
        solve = self.solve
        if solve is not None and solve.what_if is self.what_if and (found := solve.best_known):
            self.listing.answer(solve.asked, found)

    def begin_solve(self, job: int) -> None:
        """Begin a solve for the current budget or aim. What is already known of it is its first result."""
        assert self.what_if is not None
        before = self.running_solve
        if before is not None and time.monotonic() - before.started > _LOOKED_AT_S:
            self.answered()  # it ran long enough that the slider did not just pass its budget
        if self._chosen:
            self.move(self.asked)
        self.solve = Solve(job, self.budget_bytes, time.monotonic(), self.what_if, self.aim)
        best, bound = self._known_of(self.solve)
        if best is not None:
            self.solve.found(0.0, best)
        if bound:
            self.solve.proved(0.0, bound)
        self.solve_changed.emit()
