"""Plans of a JAX step: one for each layout of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import jax

from checkmate.arguments import BudgetLike, budget_of, on_miss_of
from checkmate.backends.jax.backend import JaxBackend, require_stated
from checkmate.backends.jax.compiled import StepMemory
from checkmate.backends.jax.compiler import JaxCompilation
from checkmate.backends.jax.device import lost_gpu
from checkmate.backends.jax.step import (
    BegunStep,
    JaxPlan,
    are_traced,
    begin,
    dynamic_arguments,
    none_fits,
    trace,
)
from checkmate.backends.jax.ways import Way
from checkmate.backends.xla_policy.waits import WaitPolicy
from checkmate.errors import CheckmateError, UsageError
from checkmate.fallback import planned, unplanned
from checkmate.ir.graph import Graph
from checkmate.planning.compiling import CompiledSearch
from checkmate.planning.plan_request import PlanRequest, training_solver
from checkmate.progress import Cancelled, Progress, Report, never, silent, stop_if
from checkmate.request import OnMiss
from checkmate.solvers.problem import SolveOptions


@dataclass(frozen=True, eq=False)
class JaxRequest(PlanRequest):
    """What is wanted of a step of JAX.

    ``whole``: the budget counts arguments and results, too. ``donated`` is None where the step itself says.
    """

    whole: bool = True
    donated: tuple[int, ...] | None = None
    static: tuple[int, ...] = ()


@dataclass
class JaxPlanner:
    """Makes a plan for each layout, once."""

    step: Callable[..., Any]
    request: JaxRequest
    plans: list[JaxPlan] = field(default_factory=list)
    _known: dict[Hashable, JaxPlan] = field(default_factory=dict)
    _unplanned: set[Hashable] = field(default_factory=set)  # layouts that run as before

    def plan_to_train(self, args: Sequence[Any], *, example: bool = False) -> JaxPlan | None:
        """Return the plan for such arguments; None: their step runs as before.

        Raises:
            CheckmateError: as ``checkmate.fallback.planned``.
        """
        key = _layout(args, self.request.static)
        if key in self._unplanned:
            return None

        def as_before(error: CheckmateError) -> None:
            self._unplanned.add(key)
            self.request.tell(unplanned(error))

        return planned(lambda: self.plan(args), as_before, self.request.on_miss, example=example)

    def plan(self, args: Sequence[Any], *, part: bool = False) -> JaxPlan:
        """Return the plan for such arguments.

        ``part``: it has to hold inside of other programs too, which are compiled without options.
        """
        key = _layout(args, self.request.static)
        part = part or are_traced(jax.tree.leaves(dynamic_arguments(args, self.request.static)))
        found = self._known.get(key)
        if found is None or (found.alone and part):
            with self._reporting() as planner:
                found = self._known[key] = planner._make(args, alone=not part)
            self.plans.append(found)
        return found

    @contextmanager
    def _reporting(self) -> Iterator[JaxPlanner]:
        with self.request.progress() as report:
            yield replace(self, request=replace(self.request, report=report))

    @property
    def _report(self) -> Report:
        return self.request.report or silent

    def graph(self, args: Sequence[Any]) -> Graph:
        """Return the graph of the step for such arguments, costs counted."""
        with self._reporting() as planner:
            options = Way(WaitPolicy.NONE).trial_options(jax.default_backend())
            begun = planner._begun(args, options)
            return JaxCompilation(begun, self._name, alone=True).graph

    @property
    def _name(self) -> str:
        return str(getattr(self.step, "__name__", "step"))

    def _begun(self, args: Sequence[Any], choices: Sequence[dict[str, Any]] = ({},)) -> BegunStep:
        request = self.request
        self._report(Progress("trace", message="tracing the training step"))
        traced = trace(self.step, args, request.static, request.donated)
        stop_if(request.solver.cancelled)
        self._report(Progress("compile", message="compiling the plain step with XLA"))
        return begin(traced, choices)

    def _make(self, args: Sequence[Any], *, alone: bool) -> JaxPlan:
        request = self.request
        if not self.plans and (lost := lost_gpu()):
            request.tell(lost)
        begun = self._begun(args)
        step = JaxCompilation(begun, self._name, alone=alone)
        search = CompiledSearch(step, request.solver_for(self._report), request)
        fit = search.fit(_budget_bytes(request, begun.plain))
        if not fit.fits and request.on_miss is OnMiss.RAISE:
            hint = 'raise the budget, use a smaller batch, donate the state, or write on_miss="closest"'
            raise none_fits(fit, hint)
        return self._told(JaxPlan.of(begun, request.static, fit))

    def _told(self, plan: JaxPlan) -> JaxPlan:
        self.request.tell(plan.report.sentence)
        return plan


def _layout(args: Sequence[Any], static: tuple[int, ...]) -> Hashable:
    leaves, structure = jax.tree.flatten(dynamic_arguments(args, static))
    return (
        structure,
        tuple(map(_kind, leaves)),
        tuple(args[number] for number in static if number < len(args)),
    )


def _kind(leaf: Any) -> Any:
    try:
        return _aval(leaf) if _is_shape(leaf) else jax.typeof(leaf)
    except TypeError:
        return type(leaf)  # it is no array: tracing says so


def _is_shape(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct)


def _aval(leaf: Any) -> Any:
    return jax.core.ShapedArray(leaf.shape, leaf.dtype)


def _budget_bytes(request: JaxRequest, plain: StepMemory) -> int:
    """Return what the whole step may hold."""
    held = plain.whole if request.whole else plain.temporary
    fixed = 0 if request.whole else plain.fixed
    return fixed + request.budget.resolve(keep_everything_peak=held, minimum=0)


def request_of(
    budget: BudgetLike,
    *,
    donate_argnums: int | Sequence[int] | None = None,
    static_argnums: int | Sequence[int] = (),
    of: str = "whole",
    on_miss: OnMiss | str = "closest",
    solver: str = "auto",
    options: SolveOptions | None = None,
    quiet: bool = False,
    report: Report | None = None,
    cancelled: Cancelled = never,
) -> JaxRequest:
    """Return what is wanted, read and checked.

    Raises:
        UsageError: an argument cannot be read. SolverUnavailableError: there is no such solver.
    """
    wanted = budget_of(budget)
    require_stated(wanted)
    if of not in ("whole", "temporary"):
        raise UsageError(f"of={of!r} is not known", hint='write of="whole" or of="temporary"')
    return JaxRequest(
        budget=wanted,
        solver=training_solver(solver, options, JaxBackend.attempt_s, cancelled),
        on_miss=on_miss_of(on_miss),
        quiet=quiet,
        report=report,
        whole=of == "whole",
        donated=None if donate_argnums is None else _numbers(donate_argnums),
        static=_numbers(static_argnums),
    )


def _numbers(given: int | Sequence[int]) -> tuple[int, ...]:
    return (given,) if isinstance(given, int) else tuple(given)
