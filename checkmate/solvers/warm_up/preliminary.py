"""Answer while the search is being compiled.

The published strategies need no compiled code. Greedy runs as plain Python in a process of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from checkmate.ir.arrays import Steps
from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule
from checkmate.memory.check import check
from checkmate.solvers.compile.compilation import Compilation, Say, wait_for
from checkmate.solvers.listeners import CancelListener
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.registry import find_solver
from checkmate.solvers.warm_up.plain_greedy import PlainGreedy

STRATEGIES = ("chen-greedy-linear", "chen-greedy-ap", "griewank")
_STRATEGY_S = 2.0  # the time limit of each


class PreliminarySolver:
    """Answer for one graph while the caller's ``compilation`` runs.

    Close it when done.
    """

    def __init__(self, graph: Graph, compilation: Compilation) -> None:
        self.compilation = compilation
        self._greedy = PlainGreedy(graph)

    @property
    def running(self) -> bool:
        """Return whether the search cannot run yet."""
        return self.compilation.running

    def close(self) -> None:
        """End greedy's process."""
        self._greedy.close()

    def begin_fit(self, budget_bytes: int) -> None:
        """Let greedy look for a schedule within the budget."""
        self._greedy.ask(budget_bytes)

    @property
    def fitting(self) -> bool:
        """Return whether greedy is still looking."""
        return self._greedy.busy

    def take(self) -> list[tuple[int, Steps]]:
        """Return budgets and greedy's new schedules for them, not yet checked."""
        return self._greedy.take()

    def answer(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveOptions:
        """Look for schedules until the search can run, or until cancelled.

        Returns the options with the best schedule as the start; that schedule fits the budget.
        """
        best = _Best(problem, options, listener)

        def over() -> bool:
            for _, steps in self._greedy.take():
                best.offer(steps)
            return listener.cancelled() or not self.compilation.running

        self._greedy.ask(problem.budget_bytes)
        listener.preparing(self.compilation.sentence)
        for name in STRATEGIES:
            if over():
                break
            brief = replace(options, time_limit_s=_STRATEGY_S, start=None)
            found = find_solver(name).load().solve(problem, brief, CancelListener(over))
            if found.schedule is not None:
                best.offer(found.schedule.steps)
        say: Say = listener.preparing
        wait_for(self.compilation, say, over)
        return best.options


class _Best:
    """Hold the best schedule so far, checked, and report it to the listener."""

    def __init__(self, problem: Problem, options: SolveOptions, listener: Listener) -> None:
        self._problem, self._listener = problem, listener
        self.options, self._cost = options, math.inf
        if options.start is not None:
            report = check(problem.graph, options.start.steps.tolist(), budget_bytes=problem.budget_bytes)
            self._cost = report.cost if report.ok else math.inf

    def offer(self, steps: Steps | Sequence[int]) -> None:
        """Keep the schedule if it is better and holds."""
        plan = np.asarray(steps, np.int32).tolist()
        graph = self._problem.graph
        if not all(0 <= op < graph.n for op in plan) or float(graph.cost[plan].sum()) >= self._cost:
            return
        report = check(graph, plan, budget_bytes=self._problem.budget_bytes)
        if report.ok:
            self._cost = report.cost
            self.options = replace(self.options, start=Schedule.of(graph, plan))
            self._listener.incumbent(plan, report.cost)
