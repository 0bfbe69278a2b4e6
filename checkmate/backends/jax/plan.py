"""Plans of a JAX step: one for each layout of its arguments."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import jax
from jax.extend.core import jaxpr_as_fun

from checkmate.backends.jax.compiled import StepMemory, memory_of
from checkmate.backends.jax.device import lost_gpu, speed_of
from checkmate.backends.jax.fusions import fusions, kernels
from checkmate.backends.jax.graph import graph_of
from checkmate.backends.jax.models.shapes import shape_of
from checkmate.backends.jax.program import read_program
from checkmate.backends.jax.report import JaxReport
from checkmate.backends.jax.search import CompiledStep, Search, first_compiled
from checkmate.backends.jax.solve import solve_for_xla
from checkmate.backends.jax.ways import Way, ways_on
from checkmate.backends.xla_policy.waits import WaitPolicy
from checkmate.errors import CheckmateError, NoScheduleError, NotCompiledError, TraceError, UsageError
from checkmate.fallback import planned, unplanned
from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult
from checkmate.machine.supported import JAX
from checkmate.memory.compiling import slow_to_compile
from checkmate.models.keras_graph import first_line
from checkmate.planning.progress_listener import Following
from checkmate.progress import Cancelled, Progress, Report, never, silent, stop_if
from checkmate.request import OnMiss, Target
from checkmate.solvers.problem import SolveOptions
from checkmate.units import Budget, format_bytes


@dataclass(frozen=True, eq=False)
class StepRequest:
    """What is wanted of a step.

    ``whole``: the budget counts arguments and results, too. ``donated`` is None where the step itself says.
    ``progress`` is entered while a plan is made, and gives what takes its reports in place of ``report``.
    ``first``: gives a schedule of the graph, which is taken if it keeps the budget; ``as_given``: in any
    case.
    """

    budget: Budget
    whole: bool
    donated: tuple[int, ...] | None
    static: tuple[int, ...]
    on_miss: OnMiss
    solver: str
    options: SolveOptions
    tell: Callable[[str], None]
    progress: Callable[[], AbstractContextManager[Report]]
    report: Report = silent
    cancelled: Cancelled = never
    first: Callable[[Graph], SolveResult] | None = None
    as_given: bool = False


@dataclass(frozen=True, eq=False)
class Traced:
    """A step as it was traced for one layout.

    ``donated`` are numbers of flat arguments. ``example``: the arguments, with shapes for arrays.
    """

    jaxpr: Any
    results: Any
    donated: tuple[int, ...]
    example: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class JaxPlan:
    """How the step of one layout runs.

    ``executable`` is a function of flat arguments; ``jitted`` is the same inside of other functions of JAX.
    Where the step has to be ``alone``, it is not: it was compiled with options, and a part has none.
    ``example``: the arguments that it is for, with ``jax.ShapeDtypeStruct`` for arrays. ``donated`` are
    numbers of flat arguments.
    """

    jitted: Callable[..., Any]
    executable: Callable[..., Any]
    results: Any
    static: tuple[int, ...]
    report: JaxReport
    graph: Graph | None
    result: SolveResult | None
    example: tuple[Any, ...]
    donated: tuple[int, ...]
    alone: bool = False

    @property
    def by_equations(self) -> Callable[..., Any]:
        """Return the step of flat arrays as it runs outside of ``jax.jit``.

        Then each equation is a kernel of its own.
        """
        found: Callable[..., Any] = self.jitted.__wrapped__  # type: ignore[attr-defined]
        return found

    @property
    def arguments(self) -> list[Any]:
        """Return the arguments that it is for, without those that are static."""
        return _dynamic(self.example, self.static)

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
        part = part or are_traced(jax.tree.leaves(_dynamic(args, self.request.static)))
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

    def graph(self, args: Sequence[Any]) -> Graph:
        """Return the graph of the step for such arguments, costs counted."""
        with self._reporting() as planner:
            traced = planner._traced(args)
            planner.request.report(Progress("compile", message="compiling the plain step with XLA"))
            options = Way(WaitPolicy.NONE).trial_options(jax.default_backend())
            plain = memory_of(compiled_plain(traced, _jitted(traced), options))
            return planner._search(traced, plain, plain.whole, alone=True).graph

    def plain(self, args: Sequence[Any]) -> tuple[Traced, Callable[..., Any]]:
        """Return the traced step, and the plain step as XLA compiles it.

        It is a function of flat arguments.
        """
        traced = self._traced(args)
        return traced, self._compiled_plain(traced, _jitted(traced))

    def _compiled_plain(self, traced: Traced, jitted: Any) -> Any:
        self.request.report(Progress("compile", message="compiling the plain step with XLA"))
        return compiled_plain(traced, jitted, [{}])

    def _traced(self, args: Sequence[Any]) -> Traced:
        self.request.report(Progress("trace", message="tracing the training step"))
        found = trace(self.step, args, self.request.static, self.request.donated)
        stop_if(self.request.cancelled)
        return found

    def _make(self, args: Sequence[Any], *, alone: bool) -> JaxPlan:
        request = self.request
        if not self.plans and (lost := lost_gpu()):
            request.tell(lost)
        traced = self._traced(args)
        started = time.perf_counter()
        flat = _jitted(traced)
        executable = self._compiled_plain(traced, flat)
        plain = memory_of(executable)
        compile_seconds = time.perf_counter() - started
        budget = _budget_bytes(request, plain)
        if plain.whole <= budget and request.first is None:
            report = JaxReport(budget, plain, plain, 0.0, 0, 0, None, None, 1, compile_seconds, 0.0)
            return self._told(
                JaxPlan(
                    flat,
                    executable,
                    traced.results,
                    request.static,
                    report,
                    None,
                    None,
                    traced.example,
                    traced.donated,
                )
            )
        search = self._search(traced, plain, budget, alone=alone)
        if request.first is None and (slow := slow_to_compile(compile_seconds, search.most)):
            request.tell(slow)
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
        graph = replace(graph, metadata=_metadata(len(program.equations)))

        def solve_here(graph: Graph, budget_bytes: int) -> SolveResult:
            found = solve_for_xla(
                graph,
                budget_bytes,
                platform=platform,
                solver=request.solver,
                options=request.options,
                listener=Following(graph, request.report, request.cancelled),
            )
            stop_if(request.cancelled)
            return found

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
            first=None if request.first is None else request.first(graph),
            as_given=request.as_given,
            report=request.report,
            cancelled=request.cancelled,
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
            traced.example,
            traced.donated,
            alone=bool(best.way.options),
        )

    def _told(self, plan: JaxPlan) -> JaxPlan:
        self.request.tell(plan.report.sentence)
        return plan


def _jitted(traced: Traced) -> Any:
    """Return the plain step of flat arguments, under ``jax.jit``."""
    return jax.jit(jaxpr_as_fun(traced.jaxpr), donate_argnums=traced.donated)


def compiled_plain(traced: Traced, jitted: Any, choices: Sequence[dict[str, Any]]) -> Any:
    """Compile the plain step with the first options that XLA takes.

    Raises:
        NotCompiledError: XLA fails with all.
    """
    try:
        return first_compiled(choices, jitted.lower(*traced.jaxpr.in_avals).compile)[0]
    except jax.errors.JaxRuntimeError as error:
        raise NotCompiledError(
            f"XLA cannot compile the plain step: {first_line(error)}",
            hint="run it under jax.jit without checkmate first",
        ) from error


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
    return Traced(jaxpr, jax.tree.structure(results), found, _shapes(args, static))


def _shapes(args: Sequence[Any], static: tuple[int, ...]) -> tuple[Any, ...]:
    """Return arguments with a ``jax.ShapeDtypeStruct`` for every array."""
    return tuple(arg if number in static else jax.tree.map(shape_of, arg) for number, arg in enumerate(args))


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


def _metadata(equations: int) -> dict[str, Any]:
    """Return what a graph says of its origin."""
    return {
        "framework": JAX,
        "jax": jax.__version__,
        "jax_equations": equations,
        "target": Target.XLA.value,
    }


def _impossible(search: Search, best: CompiledStep | None) -> NoScheduleError:
    fixed = format_bytes(search.plain.fixed)
    reached = "" if best is None else f"; the least that was compiled holds {format_bytes(best.memory.whole)}"
    return NoScheduleError(
        f"no schedule that was compiled keeps {format_bytes(search.budget)}{reached}, "
        f"of which {fixed} are arguments and results",
        hint='raise the budget, use a smaller batch, donate the state, or write on_miss="closest"',
        details={"budget_bytes": search.budget, "fixed_bytes": search.plain.fixed},
    )
