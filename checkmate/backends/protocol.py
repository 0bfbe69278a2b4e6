"""What planning asks of a backend.

A step is *metered* where its peak is predicted, then measured while it runs; it is *compiled* where a
compiler tells its memory before it runs. Planning has a loop for each of the two.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from checkmate.catalog.model_names import is_torch_code
from checkmate.errors import NoScheduleError, OtherStepError, UsageError
from checkmate.ir import Graph, Schedule, SolveResult, VerificationReport
from checkmate.machine.supported import require_backend, require_torch
from checkmate.memory.simulate import simulate
from checkmate.memory.step_requests import InitialAllocations, StepRequests
from checkmate.progress import Cancelled, Report
from checkmate.request import ModelRequest
from checkmate.runner import TORCH, runners_of
from checkmate.units import Budget, format_bytes_up

Way = TypeVar("Way")
Made = TypeVar("Made")
NEAR = 1.3  # times the room: a schedule that takes more, compiled in one way, will not fit in another way


@dataclass(frozen=True)
class CostsWanted:
    """How the user wants the costs of ops to be found: ``measured`` (with ``refresh`` again) or ``analytic``.
    ``estimated`` takes the graph at estimated costs before measuring begins.
    """

    kind: str = "measured"
    refresh: bool = False
    estimated: Callable[[Graph], object] | None = None


@dataclass(frozen=True)
class Allowed:
    """The bytes that a step's measured peak may reach, and the report's notes on that limit."""

    bytes: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Fitted:
    """A schedule that was measured or compiled. ``expected_bytes``: the peak found then. ``notes``: sentences
    for the report on how it was found."""

    result: SolveResult
    expected_bytes: int
    notes: tuple[str, ...]


class PlannedStep(ABC):
    """One training step of one backend, to be scheduled, verified and exported. ``supplied``: the user's own
    schedule from a file, adapted to this step; None: one is solved for."""

    supplied: SolveResult | None
    report: Report
    cancelled: Cancelled

    @property
    @abstractmethod
    def graph(self) -> Graph: ...

    @property
    @abstractmethod
    def plain_bytes(self) -> int:
        """The plain step's peak: measured, or as its compiler reports it."""

    @property
    @abstractmethod
    def share_bytes(self) -> int:
        """The bytes that a budget of 100 % means; see ``Compilation.share_bytes``."""

    @abstractmethod
    def own_budget(self) -> Allowed:
        """Return what the supplied schedule may show: its own budget in requested bytes, converted by the
        ratio of shown to requested bytes of the plain step."""

    def share_notes(self, budget: Budget, allowed: int) -> tuple[str, ...]:
        """Return the report's notes on a budget that is a share."""
        return ()

    @abstractmethod
    def verify(self, fitted: Any, allowed: int, notes: tuple[str, ...]) -> VerificationReport:
        """Run the scheduled step beside the plain one, or raise a StepTooLargeError."""

    @abstractmethod
    def export(
        self, fitted: Any, directory: Path, allowed: int, notes: tuple[str, ...]
    ) -> VerificationReport:
        """Verify, write the folder whole or not at all, and load it again.

        Raises:
            VerificationError: the gradients are not the plain step's. ExportError: it cannot be written.
            StepTooLargeError: the reloaded step does not fit the device.
        """


class Replica(Protocol):
    """Predicts what an allocator's meter shows for schedules of one graph."""

    @property
    def graph(self) -> Graph: ...

    def predicted(self, steps: Sequence[int]) -> int:
        """Return the bytes that the meter should show."""

    def requests(self, steps: Sequence[int]) -> StepRequests | None:
        """Return the step's requests to the allocator; None if their order does not change the peak."""

    def before(self, steps: Sequence[int]) -> InitialAllocations:
        """Return what the allocator holds before the step."""


class Measurable(ABC):
    """What measures schedules, and predicts what their measurement shows."""

    @property
    @abstractmethod
    def replica(self) -> Replica: ...

    @abstractmethod
    def measure(self, result: SolveResult, what: str = "", *, within: int | None = None) -> Fitted:
        """Measure a schedule; ``what`` is added to the progress messages.

        A step that shows at most ``within`` bytes (None: the plain step's peak) is compared with the plain
        step in the same process, if that has room.

        Raises:
            StepTooLargeError: it does not fit the device.
        """

    @abstractmethod
    def in_turn(self, fitted: Fitted, within: int) -> Fitted:
        """If ops ran side by side, measure again with one op at a time; return the one with the lower peak.
        Errors and ``within`` are as for ``measure``."""


class MeteredStep(PlannedStep, Measurable):
    """A step whose peak is predicted, then measured."""

    @property
    @abstractmethod
    def origin_notes(self) -> tuple[str, ...]:
        """The report's notes on costs and model, for a schedule that was solved for."""


@dataclass(frozen=True, eq=False)
class Compiled(Generic[Way, Made]):
    """A schedule compiled in one way. ``temporary``: bytes beside arguments and results. ``cost``: by the
    graph, in its unit. ``price``: the estimated time of the compiled step, to rank schedules and ways."""

    schedule: Schedule
    way: Way
    made: Made
    temporary: int
    cost: float
    price: float


class Compiler(ABC, Generic[Way, Made]):
    """Compiles the schedules of one graph of a step.

    ``ways``: how to compile, in the order to try; the first ``usual`` for every schedule, all for the
    smallest schedule. ``rate``: expected compiled bytes per byte of the graph. ``near``: a schedule that
    takes more than this times the room in one way is not tried in further ways; ``near_order``: the same for
    the plain order. ``says_least``: if nothing fits, compile the smallest schedule in all ways. ``segments``:
    prefer schedules that recompute whole segments."""

    graph: Graph
    ways: Sequence[Way]
    usual: int
    rate: float
    near: float = NEAR
    near_order: float = NEAR
    says_least: bool = False
    segments: bool = True

    @abstractmethod
    def compile(self, schedule: Schedule, way: Way) -> tuple[Made, int]:
        """Compile a schedule; return what was made, and its temporary bytes. Raise a NotCompiledError."""

    @abstractmethod
    def holds_order(self, way: Way) -> bool:
        """Whether the plain order, compiled this way, may take less memory than the plain step."""

    def price(self, schedule: Schedule, made: Made) -> float | None:
        """Estimate the compiled step's time, in any unit, to compare ways; None: use the graph's costs."""
        return None

    def extra(self, way: Way) -> float:
        """Return the extra time of a way, as a share of the plain order's cost."""
        return 0.0

    def finished(self, each: Compiled[Way, Made]) -> Compiled[Way, Made]:
        """Return ``each`` compiled with its final options, if a quicker compilation was used for the
        trial."""
        return each


@dataclass(frozen=True, eq=False)
class CompiledFit(Generic[Way, Made]):
    """The outcome of searching a compiled step's schedule for a budget. ``chosen``: None for the plain step.
    ``graph``: None if the plain step fits, so that none was built. ``result``: the solver's result for the
    chosen schedule. ``compilations`` and ``compile_seconds`` include the plain step."""

    graph: Graph | None
    plain_bytes: int
    fixed_bytes: int
    budget_bytes: int
    chosen: Compiled[Way, Made] | None
    result: SolveResult | None
    compilations: int
    compile_seconds: float
    solve_seconds: float

    @property
    def whole_bytes(self) -> int:
        """The bytes of arguments, results and temporaries together."""
        return self.plain_bytes if self.chosen is None else self.fixed_bytes + self.chosen.temporary

    @property
    def fits(self) -> bool:
        return self.whole_bytes <= self.budget_bytes

    @property
    def schedule(self) -> Schedule | None:
        return None if self.chosen is None else self.chosen.schedule

    @property
    def overhead(self) -> float:
        """The predicted extra computation, as a share of computing everything once."""
        if self.chosen is None or self.graph is None or not self.graph.base_cost:
            return 0.0
        return float(simulate(self.graph, self.chosen.schedule).cost) / self.graph.base_cost - 1

    @property
    def recomputations(self) -> int:
        return 0 if self.chosen is None else self.chosen.schedule.recomputations

    @property
    def remedy(self) -> str:
        return f"raise the budget to {format_bytes_up(self.whole_bytes)} or more"


class Compilation(ABC, Generic[Way, Made]):
    """A step that is planned by compiling it; the plain step is compiled already.

    ``plain_bytes``: arguments, results and temporaries of the plain step. ``fixed_bytes``: arguments and
    results, which no schedule changes.
    """

    plain_bytes: int
    plain_seconds: float
    fixed_bytes: int

    @property
    @abstractmethod
    def graph(self) -> Graph: ...

    @property
    def share_bytes(self) -> int:
        """The bytes that a budget of 100 % means: the plain step's, or fewer if the step with the user's own
        recomputation takes less."""
        return self.plain_bytes

    @property
    @abstractmethod
    def compilers(self) -> Sequence[Compiler[Way, Made]]:
        """The groups of ways to compile; a group is searched if those before it leave much to gain."""

    @property
    def last_resort(self) -> Sequence[Compiler[Way, Made]]:
        """Further groups, searched if nothing fits: their graphs have the same ops, with other sizes."""
        return ()


class CompiledStep(PlannedStep):
    """A step whose compiler reports the memory it takes."""

    compilation: Compilation[Any, Any]

    @property
    def plain_bytes(self) -> int:
        return self.compilation.plain_bytes

    @property
    def share_bytes(self) -> int:
        return self.compilation.share_bytes

    def own_budget(self) -> Allowed:
        """Return what the compiled step may take: the supplied budget's share of the graph's keep-everything
        bytes, applied to the plain step's temporaries."""
        assert self.supplied is not None
        graph, fixed = self.graph, self.compilation.fixed_bytes
        everything = simulate(graph, Schedule.plain(graph)).peak_bytes
        share = (self.supplied.budget_bytes - graph.fixed_bytes) / max(1, everything - graph.fixed_bytes)
        own = Budget(share=min(1.0, share))
        return Allowed(fixed + own.resolve(keep_everything_peak=self.plain_bytes - fixed, minimum=0))

    @abstractmethod
    def none_fits(self, fit: CompiledFit[Any, Any]) -> NoScheduleError:
        """Return the error for a step whose every schedule is over the budget."""

    @abstractmethod
    def fitted(self, fit: CompiledFit[Any, Any], result: SolveResult) -> Fitted: ...


class BudgetSolver(Protocol):
    """Solves for a budget in requested bytes."""

    @property
    def report(self) -> Report: ...

    @property
    def cancelled(self) -> Cancelled: ...

    def solve_above_minimum(self, graph: Graph, budget_bytes: int) -> SolveResult:
        """Solve; raise a BudgetBelowMinimumError where a single op needs more."""


class StepSolver(BudgetSolver, Protocol):
    """The solver for a backend that needs a schedule before it can measure costs."""

    def refuse_hopeless(self, graph: Graph, budget: Budget) -> None:
        """Raise a BudgetBelowMinimumError where no schedule can come near ``budget``."""


class Backend(Protocol):
    """Makes graphs and steps from requests. ``attempt_s``: default time limit of a solve. ``counted``: solves
    end after a number of moves, not seconds, so that planning is reproducible."""

    attempt_s: float
    counted: bool

    def profile(
        self, request: ModelRequest, costs: CostsWanted, *, report: Report, cancelled: Cancelled
    ) -> Graph:
        """Return the graph of a training step, with costs.

        Raises:
            LoadError, TraceError, ProfileError: with the reason. CancelledError: the user cancelled.
        """

    def step(
        self, request: ModelRequest, budget: Budget, costs: CostsWanted, solver: StepSolver
    ) -> PlannedStep:
        """Return the step that ``request`` names, with costs.

        Raises:
            BudgetBelowMinimumError: no schedule can come near ``budget``. Others as ``profile``.
        """

    def step_of_file(
        self, request: ModelRequest, graph: Graph, result: SolveResult, report: Report, cancelled: Cancelled
    ) -> PlannedStep:
        """Return the step of a graph of a file, with a schedule for it.

        Raises:
            OtherStepError: ``graph`` is not this model's.
        """


def backend_for(request: ModelRequest, graph: Graph | None = None) -> Backend:
    """Return the backend of ``request``: PyTorch's for a file of PyTorch code, else the one of Keras's
    backend.

    Raises:
        UsageError: that is not installed, or its steps cannot be scheduled; or ``graph`` is of another one.
    """
    if is_torch_code(request.model):
        require_torch(request.model)
        backend = TORCH
    else:
        backend = require_backend()
    runner = runners_of(backend)[0]
    if graph is not None and graph.runner.backend != backend:
        told = graph.runner.environment
        raise UsageError(
            f"{graph.name!r} is the graph of a {graph.runner.title} step, and {request.shown} runs by "
            f"{runner.title} here",
            hint=f"set {told}" if told else f"make a graph of its step: checkmate profile {request.model}",
        )
    module, name = runner.code
    found: Backend = getattr(import_module(module), name)()
    return found


def other_step(request: ModelRequest, graph: Graph, result: SolveResult, traced: str) -> OtherStepError:
    """Return the error for a schedule of ``graph`` where the step's fingerprint is now ``traced``."""
    return OtherStepError(
        found=graph.fingerprint,
        expected=traced,
        graph_name=graph.name,
        model=request.model,
        batch_size=graph.batch_size,
        budget_bytes=result.budget_bytes,
    )
