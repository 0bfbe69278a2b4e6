"""Retention intervals for CP-SAT, on values that share buffers, after MOCCASIN (Bartan et al., ICML 2023).

Event t(t+1)/2 + k is op k in stage t. An op has one computation in its own stage and up to C − 1 optional
ones later, in order. Each computation of a value is retained from its event to an end. Each read is covered
by one computation whose interval reaches it. Intervals of one value do not overlap, so a read gets what was
made last. A buffer lasts as long as any view that was made from it; views made from different computations of
their owner keep different buffers alive. A buffer that is taken over ends before the taker's event. One
cumulative constraint counts the bytes.

Only ``checkmate.solvers.cpsat.child`` runs this: ortools and highspy cannot be in one process.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from checkmate.processes.messages import Message, pack_steps
from checkmate.solvers.cpsat.interval_solver import IntervalTask, event_of, op_at
from checkmate.solvers.engine import EngineBound, EngineDone, EngineReady, EngineSteps


def solve_intervals(task: IntervalTask, send: Callable[[Message], None]) -> EngineDone:
    from ortools.sat.python import cp_model

    send(EngineReady())
    model = _Intervals(cp_model, task)
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.max_time_in_seconds = max(0.1, task.seconds)
    parameters.num_workers = max(1, task.workers)
    parameters.relative_gap_limit = task.gap
    parameters.random_seed = task.seed

    class SolutionReporter(cp_model.CpSolverSolutionCallback):  # type: ignore[misc]
        def on_solution_callback(self) -> None:
            """Called from a worker's thread."""
            events = [self.value(start) for start, runs in model.computations() if self.value(runs)]
            send(EngineSteps(pack_steps([op_at(event) for event in sorted(events)])))

    solver.best_bound_callback = lambda bound: send(EngineBound(float(bound)))
    status = solver.solve(model.model, SolutionReporter())
    return EngineDone(solver.status_name(status), float(solver.best_objective_bound))


class _Intervals:
    """The model while it is being built, with computations by (op, copy) and retentions by (value, copy)."""

    def __init__(self, cp_model: Any, task: IntervalTask) -> None:
        self.task, self.model, self._cp = task, cp_model.CpModel(), cp_model
        self.n = len(task.ops)
        self.end = event_of(self.n, 0)  # past the last event
        self.start: dict[tuple[int, int], Any] = {}
        self.runs: dict[tuple[int, int], Any] = {}
        self.read_until: dict[tuple[int, int], Any] = {}
        self.held_until: dict[tuple[int, int], Any] = {}
        self.covers: dict[tuple[int, int, int, int], Any] = {}  # op, copy, value, its copy
        self.keeps: dict[tuple[int, int], Any] = {}
        self._computations()
        self._retentions()
        self._reads()
        self._buffers()
        costs = [self.runs[op, c] * task.ops[op].cost for op, c in self.runs]
        self.model.minimize(sum(costs))
        if task.hint:
            _give_hint(self, task.hint)

    def computations(self) -> list[tuple[Any, Any]]:
        """(event, whether it takes place) of every computation."""
        return [(self.start[key], self.runs[key]) for key in self.runs]

    def copies(self, value: int) -> range:
        return range(self.task.ops[self.task.values[value].producer].copies)

    def _computations(self) -> None:
        new = self.model
        for op in range(self.n):
            later = [event_of(stage, op) for stage in range(op + 1, self.n)]
            for c in range(self.task.ops[op].copies if later else 1):
                if not c:
                    self.start[op, c], self.runs[op, c] = (
                        new.new_constant(event_of(op, op)),
                        new.new_constant(1),
                    )
                    continue
                domain = self._cp.Domain.from_values(later)
                self.start[op, c] = new.new_int_var_from_domain(domain, f"start_{op}_{c}")
                self.runs[op, c] = runs = new.new_bool_var(f"runs_{op}_{c}")
                new.add_implication(runs, self.runs[op, c - 1])
                new.add(self.start[op, c] > self.start[op, c - 1]).only_enforce_if(runs)

    def _retentions(self) -> None:
        new, end = self.model, self.end
        for value, entry in self.task.values.items():
            op = entry.producer
            for c in self.copies(value):
                if (op, c) not in self.runs:
                    continue
                for ends, name in ((self.read_until, "read"), (self.held_until, "held")):
                    ends[value, c] = new.new_int_var(0, end, f"{name}_{value}_{c}")
                new.add(self.read_until[value, c] >= self.start[op, c])
                new.add(self.held_until[value, c] >= self.read_until[value, c])
                if c:
                    new.add(self.read_until[value, c - 1] < self.start[op, c]).only_enforce_if(
                        self.runs[op, c]
                    )
            if entry.keep:
                for c in self.copies(value):
                    if (op, c) in self.runs:
                        self.keeps[value, c] = keeps = new.new_bool_var(f"keeps_{value}_{c}")
                        new.add_implication(keeps, self.runs[op, c])
                        new.add(self.read_until[value, c] == end).only_enforce_if(keeps)
                new.add_exactly_one(
                    self.keeps[value, c] for c in self.copies(value) if (value, c) in self.keeps
                )

    def _reads(self) -> None:
        new = self.model
        for (op, c), runs in self.runs.items():
            for value in self.task.ops[op].reads:
                maker = self.task.values[value].producer
                terms = []
                for k in self.copies(value):
                    if (maker, k) not in self.runs:
                        continue
                    covers = self.covers[op, c, value, k] = new.new_bool_var(f"covers_{op}_{c}_{value}_{k}")
                    new.add_implication(covers, self.runs[maker, k])
                    new.add(self.start[maker, k] < self.start[op, c]).only_enforce_if(covers)
                    new.add(self.read_until[value, k] >= self.start[op, c]).only_enforce_if(covers)
                    terms.append(covers)
                new.add(sum(terms) == runs)
            for view in self.task.ops[op].writes:
                self._hold_parent(op, c, view)

    def _hold_parent(self, op: int, c: int, view: int) -> None:
        parent = self.task.values[view].parent
        if parent not in self.task.values:
            return
        if self.task.values[parent].producer == op:
            self.model.add(self.held_until[parent, c] >= self.held_until[view, c])
            return
        for k in self.copies(parent):
            if (op, c, parent, k) in self.covers:
                longer = self.held_until[parent, k] >= self.held_until[view, c]
                self.model.add(longer).only_enforce_if(self.covers[op, c, parent, k])

    def _buffers(self) -> None:
        new = self.model
        taken = self._take_overs()
        intervals, sizes = [], []
        for (value, c), held in self.held_until.items():
            entry = self.task.values[value]
            if not entry.size:
                continue
            start, runs = self.start[entry.producer, c], self.runs[entry.producer, c]
            stop = held + 1
            if taken[value, c]:
                stop = new.new_int_var(0, self.end + 1, f"stop_{value}_{c}")
                new.add(stop == held + 1 - sum(taken[value, c]))
            length = new.new_int_var(0, self.end + 1, f"length_{value}_{c}")
            intervals.append(new.new_optional_interval_var(start, length, stop, runs, f"buffer_{value}_{c}"))
            sizes.append(entry.size)
        for (op, c), runs in self.runs.items():
            workspace = self.task.ops[op].workspace
            if workspace:
                start = self.start[op, c]
                intervals.append(new.new_optional_interval_var(start, 1, start + 1, runs, f"works_{op}_{c}"))
                sizes.append(workspace)
        new.add_cumulative(intervals, sizes, self.task.room)

    def _take_overs(self) -> dict[tuple[int, int], list[Any]]:
        new = self.model
        taken: dict[tuple[int, int], list[Any]] = defaultdict(list)
        for (op, c), runs in self.runs.items():
            for owners, most in self.task.ops[op].take_overs:
                group = []
                for owner in owners:
                    for k in self.copies(owner):
                        if (owner, k) not in self.held_until:
                            continue
                        takes = new.new_bool_var(f"takes_{op}_{c}_{owner}_{k}")
                        new.add_implication(takes, runs)
                        new.add(self.held_until[owner, k] == self.start[op, c]).only_enforce_if(takes)
                        taken[owner, k].append(takes)
                        group.append(takes)
                new.add(sum(group) <= most)
        for takers in taken.values():
            new.add_at_most_one(takers)
        return taken


def _give_hint(of: _Intervals, steps: list[int]) -> None:
    """Hint every start, literal and end, but no take-overs; nothing if an op runs more often than allowed."""
    hint = of.model.add_hint
    events: dict[int, list[int]] = defaultdict(list)
    stage = 0
    for op in steps:
        events[op].append(event_of(stage, op))
        stage += op == stage
    if any((op, len(found) - 1) not in of.runs for op, found in events.items()):
        return
    until = {}
    for value, k in of.read_until:
        made = events[of.task.values[value].producer]
        if k < len(made):
            until[value, k] = made[k]
    for (op, c, value, k), covers in of.covers.items():
        made = events[of.task.values[value].producer]
        now = events[op][c] if c < len(events[op]) else -1
        latest = sum(event < now for event in made) - 1
        hint(covers, int(now >= 0 and k == latest))
        if now >= 0 and k == latest:
            until[value, k] = max(until[value, k], now)
    for (value, k), keeps in of.keeps.items():
        last = k == len(events[of.task.values[value].producer]) - 1
        hint(keeps, int(last))
        if last:
            until[value, k] = of.end
    for (op, c), runs in of.runs.items():
        if c:
            hint(runs, int(c < len(events[op])))
            if c < len(events[op]):
                hint(of.start[op, c], events[op][c])
    for key, event in until.items():
        hint(of.read_until[key], event)
