"""Plans of a JAX step: one for each layout of its arguments."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
from jax.extend.core import jaxpr_as_fun

from checkmate.errors import NoScheduleError, TraceError, UsageError
from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult
from checkmate.jax.fuse import fusions
from checkmate.jax.graph import graph_of
from checkmate.jax.kernels import kernels
from checkmate.jax.lost_gpu import lost_gpu
from checkmate.jax.memory import StepMemory, memory_of
from checkmate.jax.program import read_program
from checkmate.jax.report import JaxReport
from checkmate.jax.search import CompiledStep, Search
from checkmate.jax.solve import solve_for_xla
from checkmate.jax.speed import speed_of
from checkmate.jax.ways import ways_on
from checkmate.request import OnMiss
from checkmate.solvers.problem import SolveOptions
from checkmate.units import Budget, format_bytes


@dataclass(frozen=True, eq=False)
class StepRequest:
    """What is wanted of a step.

    ``whole``: the budget counts arguments and results, too. ``donated`` is None where the step itself says.
    """

    budget: Budget
    whole: bool
    donated: tuple[int, ...] | None
    static: tuple[int, ...]
    on_miss: OnMiss
    solver: str
    options: SolveOptions
    tell: Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Traced:
    """A step as it was traced for one layout.

    ``donated`` are numbers of flat arguments.
    """

    jaxpr: Any
    results: Any
    donated: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class JaxPlan:
    """How the step of one layout runs.

    ``executable`` is a function of flat arguments; ``jitted`` is the same inside of other functions of JAX.
    Where the step has to be ``alone``, it is not: it was compiled with options, and a part has none.
    """

    jitted: Callable[..., Any]
    executable: Callable[..., Any]
    results: Any
    static: tuple[int, ...]
    report: JaxReport
    graph: Graph | None
    result: SolveResult | None
    alone: bool = False

    def call(self, args: Sequence[Any]) -> Any:
        """Run the step."""
        flat = jax.tree.leaves(_dynamic(args, self.static))
        run = self.jitted if are_traced(flat) else self.executable
        return jax.tree.unflatten(self.results, run(*flat))


@dataclass
class JaxPlanner:
    """Makes a plan for each layout, once."""

    step: Callable[..., Any]
    request: StepRequest
    plans: list[JaxPlan] = field(default_factory=list)
    _known: dict[Hashable, JaxPlan] = field(default_factory=dict)

    def plan(self, args: Sequence[Any]) -> JaxPlan:
        """Return the plan for such arguments."""
        key = _layout(args, self.request.static)
        part = are_traced(jax.tree.leaves(_dynamic(args, self.request.static)))
        found = self._known.get(key)
        if found is None or (found.alone and part):
            found = self._known[key] = self._make(args, alone=not part)
            self.plans.append(found)
        return found

    def graph(self, args: Sequence[Any]) -> Graph:
        """Return the graph of the step for such arguments, costs counted."""
        traced = trace(self.step, args, self.request.static, self.request.donated)
        flat = jax.jit(jaxpr_as_fun(traced.jaxpr), donate_argnums=traced.donated)
        plain = memory_of(flat.lower(*traced.jaxpr.in_avals).compile())
        return self._search(traced, plain, plain.whole, alone=True).graph

    def _make(self, args: Sequence[Any], *, alone: bool) -> JaxPlan:
        request = self.request
        if not self.plans and (lost := lost_gpu()):
            request.tell(lost)
        traced = trace(self.step, args, request.static, request.donated)
        started = time.perf_counter()
        flat = jax.jit(jaxpr_as_fun(traced.jaxpr), donate_argnums=traced.donated)
        executable = flat.lower(*traced.jaxpr.in_avals).compile()
        plain = memory_of(executable)
        compile_seconds = time.perf_counter() - started
        budget = _budget_bytes(request, plain)
        if plain.whole <= budget:
            report = JaxReport(budget, plain, plain, 0.0, 0, 0, None, None, 1, compile_seconds, 0.0)
            return self._told(JaxPlan(flat, executable, traced.results, request.static, report, None, None))
        search = self._search(traced, plain, budget, alone=alone)
        best = search.run()
        if best is None or (best.memory.whole > budget and request.on_miss is OnMiss.RAISE):
            raise _impossible(search, best)
        return self._told(self._plan(traced, search, best, compile_seconds))

    def _search(self, traced: Traced, plain: StepMemory, budget: int, *, alone: bool) -> Search:
        request, platform = self.request, jax.default_backend()
        program = read_program(traced.jaxpr)
        speed = speed_of(platform, jax.local_devices()[0].device_kind)
        fused = fusions(program) if platform == "cpu" else kernels(program, speed)
        if not fused:
            raise TraceError("the step computes nothing", hint="return what the step computes")
        fixed = {"arguments": plain.arguments, "results": plain.results - plain.shared}
        name = getattr(self.step, "__name__", "step")
        graph = graph_of(program, fused, name=name, speed=speed, fixed=fixed)

        def solve_here(graph: Graph, budget_bytes: int) -> SolveResult:
            return solve_for_xla(
                graph, budget_bytes, platform=platform, solver=request.solver, options=request.options
            )

        ways = ways_on(platform, alone=alone)
        return Search(
            program,
            fused,
            graph,
            platform,
            traced.donated,
            plain,
            budget,
            ways,
            speed,
            solve_here,
            segments=request.solver == "auto",
        )

    def _plan(self, traced: Traced, search: Search, best: CompiledStep, compile_seconds: float) -> JaxPlan:
        schedule = best.result.require_schedule()
        report = JaxReport(
            budget_bytes=search.budget,
            plain=search.plain,
            reached=best.memory,
            predicted_overhead=best.result.overhead or 0.0,
            recomputations=schedule.recomputations,
            ops=search.graph.n,
            status=best.result.status,
            gap=best.result.gap,
            compilations=1 + search.compilations,
            compile_seconds=compile_seconds + search.compile_seconds,
            solve_seconds=sum(each.solve_seconds for each in search.results),
        )
        return JaxPlan(
            best.jitted,
            best.executable,
            traced.results,
            self.request.static,
            report,
            search.graph,
            best.result,
            alone=bool(best.way.options),
        )

    def _told(self, plan: JaxPlan) -> JaxPlan:
        self.request.tell(plan.report.sentence)
        return plan


def trace(
    step: Callable[..., Any], args: Sequence[Any], static: tuple[int, ...], donated: tuple[int, ...] | None
) -> Traced:
    """Trace ``step`` for such arguments.

    Raises:
        UsageError: an argument's number is wrong. TraceError: it cannot be traced.
    """
    for number in (*static, *(donated or ())):
        if not 0 <= number < len(args):
            raise UsageError(
                f"there is no argument {number}: the step is called with {len(args)}",
                hint="donate_argnums and static_argnums count from 0",
            )
    try:
        jaxpr, results = jax.make_jaxpr(step, static_argnums=static, return_shape=True)(*args)
    except (TypeError, ValueError, jax.errors.JAXTypeError) as error:
        raise _untraceable(error) from error
    found = _own_donation(jaxpr) if donated is None else _flat_numbers(args, static, donated)
    return Traced(jaxpr, jax.tree.structure(results), found)


def _untraceable(error: Exception) -> TraceError:
    return TraceError(
        f"JAX cannot trace the step: {str(error).splitlines()[0]}",
        hint="it must run under jax.jit with these arguments; static_argnums names those that are no arrays",
    )


def _dynamic(args: Sequence[Any], static: tuple[int, ...]) -> list[Any]:
    return [arg for number, arg in enumerate(args) if number not in static]


def are_traced(leaves: Sequence[Any]) -> bool:
    """Return whether a step is called inside of a traced function."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)


def _layout(args: Sequence[Any], static: tuple[int, ...]) -> Hashable:
    leaves, structure = jax.tree.flatten(_dynamic(args, static))
    try:
        kinds = tuple(_aval(leaf) if _is_shape(leaf) else jax.typeof(leaf) for leaf in leaves)
    except TypeError as error:
        raise _untraceable(error) from error
    return structure, kinds, tuple(args[number] for number in static if number < len(args))


def _is_shape(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct)


def _aval(leaf: Any) -> Any:
    return jax.core.ShapedArray(leaf.shape, leaf.dtype)


def _flat_numbers(args: Sequence[Any], static: tuple[int, ...], chosen: tuple[int, ...]) -> tuple[int, ...]:
    found: list[int] = []
    first = 0
    for number, arg in enumerate(args):
        if number in static:
            continue
        count = len(jax.tree.leaves(arg))
        found += range(first, first + count) if number in chosen else ()
        first += count
    return tuple(found)


def _own_donation(jaxpr: Any) -> tuple[int, ...]:
    """Return what a step that is one jitted call donates."""
    equations = jaxpr.jaxpr.eqns
    if len(equations) != 1 or "donated_invars" not in equations[0].params:
        return ()
    place = {var: number for number, var in enumerate(jaxpr.jaxpr.invars)}
    donated = zip(equations[0].invars, equations[0].params["donated_invars"], strict=True)
    return tuple(sorted(place[var] for var, given in donated if given and var in place))


def _budget_bytes(request: StepRequest, plain: StepMemory) -> int:
    """Return what the whole step may hold."""
    held = plain.whole if request.whole else plain.temporary
    fixed = 0 if request.whole else plain.fixed
    return fixed + request.budget.resolve(keep_everything_peak=held, minimum=0)


def _impossible(search: Search, best: CompiledStep | None) -> NoScheduleError:
    fixed = format_bytes(search.plain.fixed)
    reached = "" if best is None else f"; the least that was compiled holds {format_bytes(best.memory.whole)}"
    return NoScheduleError(
        f"no schedule that was compiled keeps {format_bytes(search.budget)}{reached}, "
        f"of which {fixed} are arguments and results",
        hint='raise the budget, use a smaller batch, donate the state, or write on_miss="closest"',
        details={"budget_bytes": search.budget, "fixed_bytes": search.plain.fixed},
    )
