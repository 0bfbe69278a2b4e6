"""Ask solvers about random graphs, and hold what must be true of every answer."""

from __future__ import annotations

import math
import traceback
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from checkmate import planning
from checkmate.ir import Graph, Schedule, SolveResult, SolveStatus
from checkmate.memory.check import check
from checkmate.memory.simulate import simulate
from checkmate.solvers.bounds import working_set_bound
from checkmate.solvers.constraints import Constraints
from checkmate.solvers.problem import SolveOptions
from tests.generated_graphs import random_dag, random_layered, training_dag
from tests.graphs_strategies import as_file, random_constraints, random_graph, replay_tool

QUICK = ("greedy", "keep-all", "chen-sqrt", "chen-greedy", "griewank")
TIMED = ("auto", "local-search", "tight-milp")
SEED_SAYS_ALL = (*QUICK, "local-search")  # by counted moves, the same seed gives the same answer
_LARGE = (120, 400, 1500, 5000)  # ops, one graph of a hundred
_CERTIFIED = 10  # one graph of so many has its bounds certified


@dataclass
class Held:
    tried: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)


def graph_of(seed: int) -> Graph:
    """Return the graph of a seed: small with everything odd in it, or large."""
    dice = Random(seed)
    if seed % 100 == 99:
        return random_layered(seed, _LARGE[seed // 100 % len(_LARGE)], edges_per_op=2)
    kind = seed % 5
    if kind == 3:
        return training_dag(seed, 3 + seed % 9)
    if kind == 4:
        return random_dag(seed, 5 + seed % 25, extras=True)
    return random_graph(dice, most_ops=dice.choice([1, 5, 9, 20]))


def hold(seed: int, held: Held) -> None:
    """Ask every solver about one graph, at several budgets, with and without constraints."""
    dice, graph = Random(seed), graph_of(seed)
    low, high = working_set_bound(graph).bytes, planning.keep_everything_peak(graph)
    between = (low + (high - low) * dice.randrange(1, 8) // 8 for _ in "ab")
    budgets = sorted({max(1, budget) for budget in (low - 1, low, *between, high)})
    free, limited = Constraints(), random_constraints(dice, graph)
    large = graph.n > 100
    names = (*QUICK, "auto", "local-search") if large else (*QUICK, *TIMED)
    for constraints, once in ((free, set[int]()), limited):
        if large and constraints is not free:
            continue
        found = [
            (budget, name, answer(graph, budget, name, constraints, held))
            for budget in budgets
            for name in names
        ]
        for budget, name, result in found:
            where = f"seed {seed}, {name} at {budget}, {constraints.assumptions}"
            held.broken += [f"{where}: {problem}" for problem in replayed(graph, result, budget, once)]
        held.broken += [f"seed {seed}: {problem}" for problem in together(found, constraints.assumptions)]
        if constraints is free and not large and seed % _CERTIFIED == 0:
            held.broken += [f"seed {seed}: {problem}" for problem in certified(graph, budgets, found, held)]
    budget = budgets[len(budgets) // 2]
    for name in SEED_SAYS_ALL:
        first, second = (answer(graph, budget, name, free, held, moves=300) for _ in "ab")
        if steps_of(first) != steps_of(second):
            held.broken.append(f"seed {seed}, {name} at {budget}: two answers from one seed")


def answer(
    graph: Graph, budget: int, name: str, constraints: Constraints, held: Held, moves: int = 0
) -> SolveResult:
    """Return what a solver answers; a small limit of time or of moves will do.

    With a limit of moves the clock must never decide: greedy takes minutes for 5,000 ops.
    """
    seconds = 0.15 if name in TIMED else 20.0
    options = SolveOptions(time_limit_s=3600.0 if moves else seconds, seed=5, moves=moves or None)
    held.tried[name] += 1
    return planning.solve(graph, budget, solver=name, options=options, constraints=constraints)


def steps_of(result: SolveResult) -> list[int]:
    return [] if result.schedule is None else result.schedule.steps.tolist()


def replayed(graph: Graph, result: SolveResult, budget: int, once: set[int]) -> list[str]:
    """Return where the replays and the answer differ."""
    steps = steps_of(result)
    if not steps:
        return []
    found = check(graph, steps, budget_bytes=budget)
    if not found.ok:
        return [f"it does not check: {found.violations}"]
    timeline = simulate(graph, Schedule.of(graph, steps))
    problems = []
    if timeline.peak_bytes != found.peak_bytes or result.peak_bytes != found.peak_bytes:
        problems.append(f"peaks {timeline.peak_bytes}, {found.peak_bytes}, {result.peak_bytes}")
    if not math.isclose(result.cost or 0.0, found.cost, rel_tol=1e-9):
        problems.append(f"costs {result.cost}, {found.cost}")
    if TOOL is not None:
        told = TOOL.replay(as_file(graph), steps)
        peak, cost = told["peak_bytes"], told["cost"]
        if peak != found.peak_bytes or not math.isclose(cost, found.cost, rel_tol=1e-9):
            problems.append(f"the plain replay finds {peak}, {cost}")
    if any(steps.count(op) > 1 for op in once):
        problems.append("an op runs again that must not")
    return problems


def together(found: list[tuple[int, str, SolveResult]], assumed: tuple[str, ...]) -> list[str]:
    """Return where answers contradict each other.

    The answers are to several budgets, or of several solvers. A proof that assumes more than ``assumed``,
    such as a given order, says nothing of other solvers.
    """
    problems, best = [], math.inf
    proofs = [entry for entry in found if set(entry[2].assumptions) <= set(assumed)]
    for budget, name, result in proofs:
        bound = math.inf if result.status is SolveStatus.INFEASIBLE else result.lower_bound
        problems += [
            f"{name} proves {bound} at {budget}, and {who} costs {each.cost} at {other}"
            for other, who, each in found
            if bound is not None and each.cost is not None and (each.peak_bytes or 0) <= budget
            if bound > each.cost * (1 + 1e-6) + 1e-9
        ]
    for budget, name, result in sorted(proofs, key=lambda entry: entry[0]):
        if result.status is SolveStatus.OPTIMAL and result.cost is not None:
            if result.cost > best * (1 + 1e-6) + 1e-9:
                problems.append(f"{name}: the least cost rises to {result.cost} at {budget}")
            best = min(best, result.cost)
    return problems


def certified(
    graph: Graph, budgets: list[int], found: list[tuple[int, str, SolveResult]], held: Held
) -> list[str]:
    """Return where a certificate that holds contradicts a schedule."""
    problems = []
    for budget in budgets:
        made = planning.certify(graph, budget, seconds=0.5)
        if made is None:
            continue
        held.tried["certificate"] += 1
        proved = planning.check_certificate(graph, made.data)
        least = math.inf if proved is None else proved
        problems += [
            f"a certificate proves {least} at {budget}, and {who} costs {each.cost} at {other}"
            for other, who, each in found
            if each.cost is not None and (each.peak_bytes or 0) <= budget
            if least > each.cost * (1 + 1e-9)
        ]
    return problems


TOOL = replay_tool()


def hold_many(first: int, count: int) -> Held:
    held = Held()
    for seed in range(first, first + count):
        try:
            hold(seed, held)
        except Exception:
            held.broken.append(f"seed {seed}: {traceback.format_exc()[-600:]}")
    return held
