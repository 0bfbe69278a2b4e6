"""CP-SAT over retention intervals as a solver; the child that solves the model is killed to stop it."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import checkmate
from checkmate.errors import SolverCrashedError
from checkmate.ir import Graph, SolveResult, SolveStatus
from checkmate.processes.conversation import Conversation
from checkmate.processes.messages import JobFailed, Message, MessageError, unpack_ops
from checkmate.progress import Cancelled
from checkmate.solvers.bounds import below_working_set
from checkmate.solvers.certify import GivenOrderRun, stage_assumptions
from checkmate.solvers.engine import (
    ENGINE_MESSAGES,
    EngineBound,
    EngineDone,
    EngineReady,
    EngineSteps,
    answers,
)
from checkmate.solvers.graph_sets import buffer_owners, take_over_groups
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.retention import must_run_once
from checkmate.solvers.sequence.greedy_solver import greedy_steps
from checkmate.solvers.sequence.kernel_arrays import build_model

_COST_STEPS = 10**9  # a cost in seconds is sent as so many parts of the total, rounded down


@dataclass(frozen=True)
class IntervalOp:
    """``reads``, ``writes``: values with a buffer. ``take_overs``: (owners, how many may be taken over)."""

    reads: list[int]
    writes: list[int]
    cost: int
    workspace: int
    copies: int
    take_overs: list[tuple[list[int], int]]


@dataclass(frozen=True)
class IntervalValue:
    """A value with a buffer. ``size``: 0 for a view; ``parent``: the value it is a view of, -1 for none."""

    producer: int
    size: int
    parent: int
    keep: bool


@dataclass(frozen=True)
class IntervalTask:
    """Minimise the cost within a limit on memory.

    ``room``: the budget less fixed bytes, in units. ``values``: by id; those without bytes are left out.
    ``hint``: steps in the stages of the given order, or nothing.
    """

    ops: list[IntervalOp]
    values: dict[int, IntervalValue]
    room: int
    hint: list[int]
    seconds: float
    gap: float
    workers: int
    seed: int


def event_of(stage: int, op: int) -> int:
    """The event at which ``op`` runs in ``stage``; events in order are the steps of a schedule in stages."""
    return stage * (stage + 1) // 2 + op


def op_at(event: int) -> int:
    stage = (math.isqrt(8 * event + 1) - 1) // 2
    return event - stage * (stage + 1) // 2


def cost_unit(graph: Graph) -> float:
    """1 if all costs are whole numbers, else a small part of the total."""
    total = float(graph.cost.sum())
    whole = bool((graph.cost == np.floor(graph.cost)).all()) and total < 2**40
    return 1.0 if whole or total <= 0 else total / _COST_STEPS


def interval_task(
    graph: Graph, budget_bytes: int, *, copies: int, recompute_gradients: bool, hint: list[int], **how: Any
) -> IntervalTask:
    """Bytes are divided by their greatest common divisor, so they are exact."""
    producer, owner, alias = graph.producer.tolist(), graph.owner.tolist(), graph.alias_of.tolist()
    sized = {
        v
        for v in range(graph.m)
        if producer[v] >= 0 and producer[owner[v]] >= 0 and graph.values[owner[v]].bytes
    }
    bytes_ = np.append(graph.value_bytes[buffer_owners(graph)], graph.workspace_bytes)
    unit = int(np.gcd.reduce(bytes_)) or 1
    once = must_run_once(graph, recompute_gradients=recompute_gradients)
    costs = cost_unit(graph)
    ops = [
        IntervalOp(
            reads=[v for v in graph.op_inputs[i].tolist() if v in sized],
            writes=[v for v in op.outputs if v in sized],
            cost=math.floor(op.cost / costs),
            workspace=op.workspace_bytes // unit,
            copies=1 if once[i] or sized.isdisjoint(op.outputs) else copies,
            take_overs=[(list(group.inputs), group.most) for group in take_over_groups(graph, i)],
        )
        for i, op in enumerate(graph.ops)
    ]
    values = {
        v: IntervalValue(
            producer=producer[v],
            size=graph.values[v].bytes // unit if owner[v] == v else 0,
            parent=alias[v],
            keep=graph.values[v].keep,
        )
        for v in sorted(sized)
    }
    return IntervalTask(ops, values, (budget_bytes - graph.fixed_bytes) // unit, hint, **how)


# Literals; with more, nothing is found in minutes (measured: ResNet50 has 7,000 and just works).
MOST_COVERS = 20_000
_COVERS_OF_THREE = 3_000
_LEAVE_S = 0.3  # time beyond the limit in which the child may end
_LOADING_S = 60.0  # time for the child to load its library, which does not count as the user's
_UNREADABLE = "the interval model's process sent what cannot be read"
_GREEDY_SHARE = 0.2  # of the time limit, the most that greedy may use


class IntervalSolver:
    """Find the best schedule in the given order with few computations per op, under the stated assumptions.

    No op is computed more than ``copies`` times; by default three times on small graphs and twice on others.
    Two are proved in a fraction of the time that three take, but tight budgets need three (U-Net at f = .1:
    10.0 % extra cost instead of 7.7 %). INFEASIBLE is only said of a budget below some op's own need, because
    for any other budget another order, or more computations, may fit.
    """

    name = "intervals"

    def __init__(self, copies: int | None = None) -> None:
        self._copies = copies

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        copies = self._copies or (3 if _covers(problem.graph, 3) <= _COVERS_OF_THREE else 2)
        return (
            below_working_set(problem, self.name) or _IntervalRun(problem, options, listener, copies).result()
        )


def _covers(graph: Graph, copies: int) -> int:
    return copies**2 * sum(len(graph.op_inputs[op]) for op in range(graph.n))


def interval_assumptions(graph: Graph, copies: int, *, recompute_gradients: bool) -> tuple[str, ...]:
    most = f"at most {copies} computations of an op"
    return stage_assumptions(graph, most, recompute_gradients=recompute_gradients)


class _IntervalRun(GivenOrderRun):
    def __init__(self, problem: Problem, options: SolveOptions, listener: Listener, copies: int) -> None:
        assumptions = interval_assumptions(
            problem.graph, copies, recompute_gradients=options.recompute_gradients
        )
        super().__init__(IntervalSolver.name, problem, options, listener, assumptions)
        self._copies, self._unit = copies, cost_unit(problem.graph)

    def result(self) -> SolveResult:
        covers = _covers(self.graph, self._copies)
        if covers > MOST_COVERS:
            sentence = (
                f"the interval model for {self.graph.name!r} has about {covers:,} variables for its reads"
            )
            sentence = f"{sentence}, too many (at most {MOST_COVERS:,}); choose another solver"
            return self.without_schedule(SolveStatus.LIMIT, sentence, {"engine_status": "not started"})
        self._take_start()
        engine_status = "not started" if self.is_proved() else self._solve_once()
        if self.best:
            return self._finished(self.best, engine_status)
        return self.nothing_found(
            "the time limit was reached without a schedule",
            {"engine_status": engine_status},
            infeasible=engine_status == "INFEASIBLE",
            instead="another may",
        )

    def _take_start(self) -> None:
        if not self.lacks_start():
            return
        until = time.perf_counter() + _GREEDY_SHARE * self.options.time_limit_s
        budget, cancelled = self.problem.budget_bytes, self.listener.cancelled
        found = greedy_steps(build_model(self.graph), budget, until=until, cancelled=cancelled)
        if found.fits:
            self.take_in_stages(found.steps.tolist())

    def _solve_once(self) -> str:
        hint = self.best or []
        if hint and max(Counter(hint).values()) > self._copies:
            hint = []
        task = interval_task(
            self.graph,
            self.problem.budget_bytes,
            copies=self._copies,
            recompute_gradients=self.options.recompute_gradients,
            hint=hint,
            seconds=max(0.1, self.left()),
            gap=self.options.gap,
            workers=self.options.workers,
            seed=self.options.seed,
        )
        loading = time.perf_counter()
        for message in _answers(task, self.listener.cancelled):
            match message:
                case EngineReady():
                    self.exclude(time.perf_counter() - loading)
                case EngineSteps(steps=steps):
                    self.take(_ops(steps, self.graph.n))
                case EngineBound(bound=bound):
                    self._raise(bound)
                case EngineDone(status=status, bound=bound):
                    if status in ("OPTIMAL", "FEASIBLE", "UNKNOWN"):
                        self._raise(bound)
                    return status
            if self.is_proved():
                return "OPTIMAL"
        return "STOPPED"

    def _raise(self, bound: float) -> None:
        if math.isfinite(bound):  # costs in the task are rounded down, so its bound holds
            self.raise_bound(bound * self._unit)

    def _finished(self, best: list[int], engine_status: str) -> SolveResult:
        # Every schedule computes each op once, in any order. And a start may compute an op more often than
        # the claim allows.
        beyond = max(Counter(best).values()) > self._copies
        anyway = beyond or self.bound <= self.graph.base_cost
        return self.with_schedule(
            best,
            self.graph.base_cost if anyway else self.bound,
            {"engine_status": engine_status},
            assumptions=() if anyway else self.assumptions,
            provable=not beyond,
        )


def _ops(steps: bytes, ops: int) -> list[int]:
    try:
        found: list[int] = unpack_ops(steps, ops).tolist()
        return found
    except MessageError as error:
        raise SolverCrashedError(_UNREADABLE) from error


def _answers(task: IntervalTask, cancelled: Cancelled) -> Iterator[Message]:
    """Yield the child's messages until it has ended; SolverCrashedError if it was not done."""
    root = str(Path(checkmate.__file__).parents[1])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    talk = Conversation("checkmate.solvers.cpsat.child", ENGINE_MESSAGES, {**os.environ, "PYTHONPATH": path})
    try:
        seconds = task.seconds + _LEAVE_S
        for message in answers(talk, task, loading_s=_LOADING_S, seconds=seconds, cancelled=cancelled):
            if message is None and talk.garbled:
                raise SolverCrashedError(_UNREADABLE)
            if message is None:
                raise SolverCrashedError(f"the interval model's process ended with code {talk.close()}")
            if isinstance(message, JobFailed):
                raise SolverCrashedError(f"the interval model could not be solved: {message.message}")
            yield message
    finally:
        talk.close()
