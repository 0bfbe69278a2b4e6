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
from checkmate.errors import NoScheduleError
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
NEAR = 1.3  # of the room: what takes more in one way will not fit in another


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
    """What a step may show, in bytes, and what the report says of that."""

    bytes: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Fitted:
    """A schedule that was measured or compiled, whose step showed ``expected_bytes``. ``notes``: what the
    report says of how it was found.
    """

    result: SolveResult
    expected_bytes: int
    notes: tuple[str, ...]


class PlannedStep(ABC):
    """One training step of one backend, on its way from a budget to an export. ``supplied``: a schedule of a
    file, made one of this step.
    """

    supplied: SolveResult | None
    report: Report
    cancelled: Cancelled

    @property
    @abstractmethod
    def graph(self) -> Graph: ...

    @property
    @abstractmethod
    def plain_bytes(self) -> int:
        """What the plain step shows: measured, or as compiled."""

    @property
    @abstractmethod
    def share_bytes(self) -> int:
        """What a share is of, as ``Compilation.share_bytes``."""

    @abstractmethod
    def own_budget(self) -> Allowed:
        """Return the bytes at which the supplied schedule's own budget is kept, at the plain step's rate."""

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
        """Return what a step asks of the allocator, in order; None where the order is all the same to it."""

    def before(self, steps: Sequence[int]) -> InitialAllocations:
        """Return what the allocator holds before the step."""


class Measurable(ABC):
    """What measures schedules, and predicts what their measurement shows."""

    @property
    @abstractmethod
    def replica(self) -> Replica: ...

    @abstractmethod
    def measure(self, result: SolveResult, what: str = "", *, within: int | None = None) -> Fitted:
        """Measure a schedule; ``what`` is added to what is said meanwhile.

        A step that shows at most ``within`` bytes (None: the plain step's) is compared with the plain one in
        the same process, where that fits.

        Raises:
            StepTooLargeError: it does not fit the device.
        """

    @abstractmethod
    def in_turn(self, fitted: Fitted, within: int) -> Fitted:
        """Measure the step again with its ops one after another, if some ran side by side; return the one
        that shows less. Errors and ``within`` are as for ``measure``.
        """


class MeteredStep(PlannedStep, Measurable):
    """A step whose peak is predicted, then measured."""

    @property
    @abstractmethod
    def origin_notes(self) -> tuple[str, ...]:
        """The report's notes on costs and model, for a schedule that was solved for."""


@dataclass(frozen=True, eq=False)
class Compiled(Generic[Way, Made]):
    """A schedule that was compiled in one way. ``temporary``: the bytes between arguments and results.
    ``cost``: in the graph's unit. ``price``: what it probably takes as it was compiled, to choose among
    several.
    """

    schedule: Schedule
    way: Way
    made: Made
    temporary: int
    cost: float
    price: float


class Compiler(ABC, Generic[Way, Made]):
    """Compiles the schedules of one graph of a step. ``ways``: in the order in which they are tried;
    ``usual`` of them for each schedule, all for the smallest. ``rate``: the bytes that it takes for each of
    the graph's, as far as is known. ``near``: of the room; a schedule that takes more in one way is not tried
    in another. ``near_order``: the same, for the plain order. ``says_least``: whether the smallest is
    compiled in all ways where nothing fits. ``segments``: schedules that recompute whole segments are
    preferred.
    """

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
        """Whether all steps wait in a way, so that even the plain order may take less memory."""

    def price(self, schedule: Schedule, made: Made) -> float | None:
        """Estimate a compiled schedule's time in any unit, to compare ways; None: use the graph's costs."""
        return None

    def extra(self, way: Way) -> float:
        """Return the extra time of a way, as a share of the plain order's cost."""
        return 0.0

    def finished(self, each: Compiled[Way, Made]) -> Compiled[Way, Made]:
        """Return ``each`` compiled as it will run, if it was compiled otherwise to read its memory."""
        return each


@dataclass(frozen=True, eq=False)
class CompiledFit(Generic[Way, Made]):
    """How a compiled step meets a budget. ``chosen``: None: the step stays plain. ``graph``: None where that
    was clear before it was needed. ``result``: what solving gave its schedule. ``compilations`` took
    ``compile_seconds``, the plain step's included.
    """

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
        """What arguments, results and temporaries take together."""
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
    """A step that is planned by compiling it. The plain step was compiled."""

    @property
    @abstractmethod
    def plain_seconds(self) -> float: ...

    @property
    @abstractmethod
    def graph(self) -> Graph: ...

    @property
    @abstractmethod
    def plain_bytes(self) -> int:
        """What arguments, results and temporaries of the plain step take together."""

    @property
    def share_bytes(self) -> int:
        """What a share is of: the plain step's bytes, or those of the step with the user's own recomputation
        if fewer."""
        return self.plain_bytes

    @property
    @abstractmethod
    def fixed_bytes(self) -> int:
        """What arguments and results take, which no schedule changes."""

    @property
    @abstractmethod
    def compilers(self) -> Sequence[Compiler[Way, Made]]:
        """The groups of ways to compile. Each is for where the one before left much to gain."""

    @property
    def last_resort(self) -> Sequence[Compiler[Way, Made]]:
        """Further groups for where nothing fits: their graphs have the same ops and count other bytes."""
        return ()


class CompiledStep(PlannedStep):
    """A step whose compiler reports the memory it takes."""

    @property
    @abstractmethod
    def compilation(self) -> Compilation[Any, Any]: ...

    @property
    def plain_bytes(self) -> int:
        return self.compilation.plain_bytes

    @property
    def share_bytes(self) -> int:
        return self.compilation.share_bytes

    def own_budget(self) -> Allowed:
        """Return what the compiled step may take: the plain step's bytes, scaled as the supplied budget
        scales the graph's."""
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
    """What a backend solves with, where it needs a schedule to measure costs."""

    def refuse_hopeless(self, graph: Graph, budget: Budget) -> None:
        """Raise a BudgetBelowMinimumError where no schedule can come near ``budget``."""


class Backend(Protocol):
    """What computes steps: how a request comes to a graph, and to a step. ``attempt_s``:
    the time limit of a solve, where the user gives none. ``counted``: solves count moves, not seconds, so
    that a step is planned in the same way again.
    """

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
            OtherStepError: ``graph`` is not this model's. UsageError: it is of another backend.
        """


def backend_for(request: ModelRequest) -> Backend:
    """Return the backend of ``request``: PyTorch's for a file of PyTorch code, else the one of Keras's
    backend.

    Raises:
        UsageError: that is not installed, or its steps cannot be scheduled.
    """
    if is_torch_code(request.model):
        require_torch(request.model)
        backend = TORCH
    else:
        backend = require_backend()
    module, name = runners_of(backend)[0].code
    found: Backend = getattr(import_module(module), name)()
    return found
