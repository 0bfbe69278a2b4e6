"""The table of solvers; nothing here loads a solver library."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass

from checkmate.errors import SolverUnavailableError
from checkmate.solvers.problem import Solver, SolverFeature

F = SolverFeature


@dataclass(frozen=True)
class SolverEntry:
    """One solver. ``target``: ``module:class``; ``requires``: the modules that it imports when it runs."""

    name: str
    target: str
    description: str
    features: frozenset[SolverFeature]
    requires: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """The required modules that are not installed. They are not imported."""
        return tuple(name for name in self.requires if importlib.util.find_spec(name) is None)

    def load(self) -> Solver:
        """Raise SolverUnavailableError if a library it needs is not installed."""
        if self.missing:
            raise SolverUnavailableError(
                f"solver {self.name!r} needs {', '.join(self.missing)}, which is not installed",
                hint=f"pip install {' '.join(self.missing)}, or choose another solver",
            )
        module, _, attribute = self.target.partition(":")
        solver: Solver = getattr(importlib.import_module(module), attribute)()
        return solver


def _entry(
    name: str, target: str, description: str, *features: SolverFeature, requires: tuple[str, ...] = ()
) -> SolverEntry:
    return SolverEntry(name, f"checkmate.solvers.{target}", description, frozenset(features), requires)


# One line per solver.
SOLVERS: tuple[SolverEntry, ...] = (
    _entry(
        "auto",
        "portfolio.auto:AutoSolver",
        "the default: a schedule at once, improved by search, with a proof or a proved gap",
        F.ORDER_FREE,
        F.ANYTIME,
        F.LOWER_BOUND,
        F.PROVES_OPTIMALITY,
        F.PROVES_INFEASIBILITY,
        F.STREAMS,
        requires=("llvmlite", "highspy"),
    ),
    _entry(
        "local-search",
        "sequence.local_search:LocalSearchSolver",
        "improves the sequence of steps by annealing, order included, until time is up; no proof",
        F.ORDER_FREE,
        F.STREAMS,
        F.ANYTIME,
        F.COUNTS_MOVES,
        requires=("llvmlite",),
    ),
    _entry(
        "path-cut",
        "pathcut.prover:PathCutSolver",
        "lower bounds for any order of execution by cuts along a path; proves optimality, "
        "finds few schedules itself",
        F.ORDER_FREE,
        F.LOWER_BOUND,
        F.PROVES_OPTIMALITY,
        F.PROVES_INFEASIBILITY,
        F.STREAMS,
        requires=("highspy",),
    ),
    _entry(
        "greedy",
        "sequence.greedy_solver:GreedySolver",
        "a feasible schedule in milliseconds",
        requires=("llvmlite",),
    ),
    _entry(
        "chain",
        "chain.chain_solver:ChainSolver",
        "dynamic programming over the forward pass's segments: best where a network is nearly a chain and "
        "memory is tight",
        F.STREAMS,
        requires=("llvmlite",),
    ),
    _entry(
        "milp",
        "milp.paper_solvers:MilpSolver",
        "the paper's mixed-integer program in PuLP: optimal in the given order, for small graphs; "
        "an engine names its solver",
        F.PROVES_OPTIMALITY,
        F.LOWER_BOUND,
        F.STREAMS,
        requires=("pulp", "highspy"),
    ),
    _entry(
        "tight-milp",
        "milp.tight_solver:TightMilpSolver",
        "a tight mixed-integer program: optimal in the given order, for networks of a few hundred ops",
        F.PROVES_OPTIMALITY,
        F.LOWER_BOUND,
        F.STREAMS,
        requires=("llvmlite", "highspy"),
    ),
    _entry(
        "intervals",
        "cpsat.interval_solver:IntervalSolver",
        "constraint programming over retention intervals: optimal in the given order with at most two "
        "computations of an op",
        F.PROVES_OPTIMALITY,
        F.LOWER_BOUND,
        F.STREAMS,
        requires=("llvmlite", "ortools"),
    ),
    _entry(
        "lp-rounding",
        "milp.paper_solvers:LpRoundingSolver",
        "the paper's two-phase rounding of the program's relaxation",
        F.LOWER_BOUND,
        requires=("pulp", "highspy"),
    ),
    _entry("chen-sqrt", "baselines:chen_sqrt", "every √n-th layer is a checkpoint, for chains", F.CHAIN_ONLY),
    _entry("chen-sqrt-ap", "baselines:chen_sqrt_ap", "every √n-th articulation point is a checkpoint"),
    _entry(
        "chen-sqrt-linear",
        "baselines:chen_sqrt_linear",
        "every √n-th op of the given order is a checkpoint",
    ),
    _entry("chen-greedy", "baselines:chen_greedy", "segments of equal memory, for chains", F.CHAIN_ONLY),
    _entry(
        "chen-greedy-ap",
        "baselines:chen_greedy_ap",
        "segments of equal memory between articulation points",
    ),
    _entry(
        "chen-greedy-linear",
        "baselines:chen_greedy_linear",
        "segments of equal memory in the given order",
    ),
    _entry("griewank", "baselines:GriewankSolver", "binomial checkpointing (revolve), linearized"),
    _entry(
        "keep-all",
        "baselines:KeepAllSolver",
        "computes everything once and keeps it; saves no memory, costs nothing extra",
        F.IGNORES_BUDGET,
    ),
)

# Published strategies to compare with. Each is fast, makes its own schedules and proves nothing about others.
BASELINES: tuple[str, ...] = (
    "keep-all",
    "chen-sqrt",
    "chen-sqrt-ap",
    "chen-sqrt-linear",
    "chen-greedy",
    "chen-greedy-ap",
    "chen-greedy-linear",
    "griewank",
)


def find_solver(name: str) -> SolverEntry:
    """Raise SolverUnavailableError if there is none."""
    for entry in SOLVERS:
        if entry.name == name:
            return entry
    raise SolverUnavailableError(
        f"there is no solver {name!r}", hint=f"choose one of: {', '.join(entry.name for entry in SOLVERS)}"
    )
