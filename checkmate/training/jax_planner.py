"""Plans of a JAX step: one for each layout of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
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
)
from checkmate.backends.jax.ways import Way
from checkmate.backends.xla_policy.waits import WaitPolicy
from checkmate.errors import CheckmateError, UsageError
from checkmate.fallback import planned, unplanned
from checkmate.ir import Graph
from checkmate.planning.compiling import CompiledSearch
from checkmate.planning.plan_request import PlanRequest, training_solver
from checkmate.progress import Report
from checkmate.request import OnMiss
from checkmate.solvers.problem import SolveOptions


@dataclass(frozen=True, eq=False)
class JaxRequest(PlanRequest):
    """The user's wishes for a JAX step. ``whole``: the budget includes arguments and results. ``donated``:
    None to keep the donation of a jitted step."""

    whole: bool = True
    donated: tuple[int, ...] | None = None
    static: tuple[int, ...] = ()


@dataclass
class JaxPlanner:
    step: Callable[..., Any]
    request: JaxRequest
    plans: list[JaxPlan] = field(default_factory=list)
    _known: dict[Hashable, JaxPlan] = field(default_factory=dict)
    _unplanned: set[Hashable] = field(default_factory=set)  # layouts that run as before

    def plan_to_train(self, args: Sequence[Any], *, example: bool = False) -> JaxPlan | None:
        """Return the plan for such arguments; None: their step runs as before."""
        key = _layout(args, self.request.static)
        if key in self._unplanned:
            return None

        def as_before(error: CheckmateError) -> None:
            self._unplanned.add(key)
            self.request.tell(unplanned(error))

        return planned(lambda: self.plan(args), as_before, self.request.on_miss, example=example)

    def plan(self, args: Sequence[Any], *, part: bool = False) -> JaxPlan:
        """Return the plan for such arguments. ``part``: it must also keep the budget inside other programs,
        which are compiled without its XLA options."""
        key = _layout(args, self.request.static)
        part = part or are_traced(jax.tree.leaves(dynamic_arguments(args, self.request.static)))
        found = self._known.get(key)
        if found is None or (found.alone and part):
            with self.request.progress() as report:
                found = self._known[key] = self._make(args, report, alone=not part)
            self.plans.append(found)
        return found

    def graph(self, args: Sequence[Any]) -> Graph:
        options = Way(WaitPolicy.NONE).trial_options(jax.default_backend())
        with self.request.progress() as report:
            return JaxCompilation(self._begun(args, report, options), self._name, alone=True).graph

    @property
    def _name(self) -> str:
        return str(getattr(self.step, "__name__", "step"))

    def _begun(
        self, args: Sequence[Any], report: Report, choices: Sequence[dict[str, Any]] = ({},)
    ) -> BegunStep:
        return begin(self.step, args, self.request.static, self.request.donated, choices, report=report)

    def _make(self, args: Sequence[Any], report: Report, *, alone: bool) -> JaxPlan:
        request = self.request
        if not self.plans and (lost := lost_gpu()):
            request.tell(lost)
        begun = self._begun(args, report)
        for note in begun.traced.notes if not self.plans else ():
            request.tell(note)
        step = JaxCompilation(begun, self._name, alone=alone)
        search = CompiledSearch(step, request.solver_for(report), request)
        base = begun.plain if request.budget.share is None else step.share_of
        fit = search.fit(_budget_bytes(request, base))
        if not fit.fits and request.on_miss is OnMiss.RAISE:
            hint = 'raise the budget, use a smaller batch, donate the state, or write on_miss="closest"'
            raise none_fits(fit, hint)
        plan = JaxPlan.of(begun, request.static, fit, base)
        request.tell(plan.report.sentence)
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
        if isinstance(leaf, jax.ShapeDtypeStruct):
            return jax.core.ShapedArray(leaf.shape, leaf.dtype)
        return jax.typeof(leaf)
    except TypeError:
        return type(leaf)  # not an array; tracing will raise an error for it


def _budget_bytes(request: JaxRequest, base: StepMemory) -> int:
    """``base``: the memory that a share is of."""
    if request.whole:
        return request.budget.resolve(keep_everything_peak=base.whole, minimum=0)
    return base.fixed + request.budget.resolve(keep_everything_peak=base.temporary, minimum=0)


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
) -> JaxRequest:
    """Read and check what is wanted."""
    wanted = budget_of(budget)
    require_stated(wanted)
    if of not in ("whole", "temporary"):
        raise UsageError(f"of={of!r} is not known", hint='write of="whole" or of="temporary"')
    return JaxRequest(
        budget=wanted,
        solver=training_solver(solver, options, JaxBackend.attempt_s),
        on_miss=on_miss_of(on_miss),
        quiet=quiet,
        whole=of == "whole",
        donated=None if donate_argnums is None else _numbers(donate_argnums),
        static=_numbers(static_argnums),
    )


def _numbers(given: int | Sequence[int]) -> tuple[int, ...]:
    return (given,) if isinstance(given, int) else tuple(given)
