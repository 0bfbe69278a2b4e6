"""A step of JAX, traced for one layout of its arguments, and how it runs by a plan."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, jaxpr_as_fun

from checkmate.backends.jax.compiled import StepMemory, memory_of
from checkmate.backends.jax.program import CALLS, shape_of
from checkmate.backends.jax.report import JaxReport
from checkmate.backends.outcomes import TAKEN_OUT
from checkmate.backends.protocol import CompiledFit
from checkmate.errors import NoScheduleError, NotCompiledError, TraceError, UsageError
from checkmate.ir import Graph, SolveResult
from checkmate.models.error_text import first_line
from checkmate.progress import Cancelled, Progress, Report, never, silent, stop_if
from checkmate.units import format_bytes


@dataclass(frozen=True, eq=False)
class Traced:
    """A step traced for one layout of arguments. ``donated``: numbers of flat arguments. ``example``: the
    arguments, with shapes for arrays. ``as_written``: the jaxpr before the user's own recomputation was
    removed to get ``jaxpr``; None if there was none."""

    jaxpr: Any
    results: Any
    donated: tuple[int, ...]
    example: tuple[Any, ...]
    as_written: Any

    @property
    def taken_out(self) -> bool:
        return self.as_written is not None

    @property
    def notes(self) -> tuple[str, ...]:
        return (TAKEN_OUT,) if self.taken_out else ()


@dataclass(frozen=True, eq=False)
class JaxPlan:
    """How the step of one layout of arguments runs. ``executable``: compiled, for flat arguments; ``jitted``:
    the same to be called inside other JAX functions. ``alone``: it needs XLA options, so ``jitted`` would not
    keep the budget there. ``example``: the layout's arguments, with ``jax.ShapeDtypeStruct`` for arrays.
    ``donated``: numbers of flat arguments.
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

    @classmethod
    def of(
        cls,
        begun: BegunStep,
        static: tuple[int, ...],
        fit: CompiledFit[Any, Any],
        base: StepMemory | None = None,
    ) -> JaxPlan:
        """Return the plan of a step whose schedule was compiled; the plain step where none was chosen.
        ``base``: as ``JaxReport`` has it; None: the plain step.
        """
        traced, chosen, result = begun.traced, fit.chosen, fit.result
        report = JaxReport(
            budget_bytes=fit.budget_bytes,
            plain=begun.plain,
            base=base or begun.plain,
            reached=begun.plain if chosen is None else chosen.made.memory,
            predicted_overhead=0.0 if result is None else result.overhead or 0.0,
            recomputations=fit.recomputations,
            ops=0 if chosen is None or fit.graph is None else fit.graph.n,
            status=None if result is None else result.status,
            gap=None if result is None else result.gap,
            compilations=fit.compilations,
            compile_seconds=fit.compile_seconds,
            solve_seconds=fit.solve_seconds,
        )
        return cls(
            begun.jitted if chosen is None else chosen.made.jitted,
            begun.executable if chosen is None else chosen.made.executable,
            traced.results,
            static,
            report,
            None if chosen is None else fit.graph,
            result,
            traced.example,
            traced.donated,
            alone=chosen is not None and bool(chosen.way.options),
        )

    @property
    def by_equations(self) -> Callable[..., Any]:
        """The step of flat arrays as it runs outside of ``jax.jit``: each equation is a kernel of its own."""
        found: Callable[..., Any] = self.jitted.__wrapped__  # type: ignore[attr-defined]
        return found

    @property
    def arguments(self) -> list[Any]:
        """The arguments that it is for, without those that are static."""
        return dynamic_arguments(self.example, self.static)

    def call(self, args: Sequence[Any]) -> Any:
        flat = jax.tree.leaves(dynamic_arguments(args, self.static))
        run = self.jitted if are_traced(flat) else self.executable
        return jax.tree.unflatten(self.results, run(*flat))


@dataclass(frozen=True, eq=False)
class BegunStep:
    """A traced step and its compiled plain step, a function of flat arguments. ``seconds``: compile time."""

    traced: Traced
    jitted: Any
    executable: Any
    plain: StepMemory
    seconds: float


def none_fits(fit: CompiledFit[Any, Any], hint: str) -> NoScheduleError:
    """Return the error for a step whose every schedule is over the budget. ``hint``: what to do."""
    fixed, least = format_bytes(fit.fixed_bytes), format_bytes(fit.whole_bytes)
    return NoScheduleError(
        f"no schedule that was compiled keeps {format_bytes(fit.budget_bytes)}; the least that was compiled "
        f"holds {least}, of which {fixed} are arguments and results",
        hint=hint,
        details={"budget_bytes": fit.budget_bytes, "fixed_bytes": fit.fixed_bytes},
    )


def begin(
    step: Callable[..., Any],
    args: Sequence[Any],
    static: tuple[int, ...],
    donated: tuple[int, ...] | None,
    choices: Sequence[dict[str, Any]] = ({},),
    *,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> BegunStep:
    """Trace ``step``, and compile it plainly with the first of the options that XLA takes."""
    report(Progress("trace", message="tracing the training step"))
    traced = trace(step, args, static, donated)
    stop_if(cancelled)
    report(Progress("compile", message="compiling the plain step with XLA"))
    started = time.perf_counter()
    jitted = jax.jit(jaxpr_as_fun(traced.jaxpr), donate_argnums=traced.donated)
    executable = compiled_plain(traced, jitted, choices)
    return BegunStep(traced, jitted, executable, memory_of(executable), time.perf_counter() - started)


def compiled_plain(traced: Traced, jitted: Any, choices: Sequence[dict[str, Any]]) -> Any:
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
    for number in (*static, *(donated or ())):
        if not 0 <= number < len(args):
            raise UsageError(
                f"there is no argument {number}: the step is called with {len(args)}",
                hint="donate_argnums and static_argnums count from 0",
            )
    try:
        jaxpr, results = jax.make_jaxpr(step, static_argnums=static, return_shape=True)(*args)
    except (TypeError, ValueError, jax.errors.JAXTypeError) as error:
        raise TraceError(
            f"JAX cannot trace the step: {str(error).splitlines()[0]}",
            hint="it must run under jax.jit with these arguments; static_argnums names those that are no "
            "arrays",
        ) from error
    found = _own_donation(jaxpr) if donated is None else _flat_numbers(args, static, donated)
    shapes = (arg if number in static else jax.tree.map(shape_of, arg) for number, arg in enumerate(args))
    freed = without_recomputation(jaxpr.jaxpr)
    as_written = None if freed is jaxpr.jaxpr else jaxpr
    return Traced(jaxpr.replace(jaxpr=freed), jax.tree.structure(results), found, tuple(shapes), as_written)


# XLA may then merge what ``jax.checkpoint`` computes again with the first, as ``program.py`` does. Inside of
# loops and branches it stays.
def without_recomputation(jaxpr: Jaxpr) -> Jaxpr:
    """Return ``jaxpr`` without the barriers of ``jax.checkpoint``; itself where it has none."""
    found = [_freed(equation) for equation in jaxpr.eqns]
    changed = any(new is not old for new, old in zip(found, jaxpr.eqns, strict=True))
    return jaxpr.replace(eqns=found) if changed else jaxpr


def _freed(equation: JaxprEqn) -> JaxprEqn:
    params, name = dict(equation.params), CALLS.get(str(equation.primitive.name), "")
    body = params.get(name)
    inner = body.jaxpr if isinstance(body, ClosedJaxpr) else body
    if not isinstance(inner, Jaxpr):
        return equation
    freed = without_recomputation(inner)
    delayed = params.get("differentiated") and params.get("prevent_cse")
    if freed is inner and not delayed:
        return equation
    params[name] = body.replace(jaxpr=freed) if isinstance(body, ClosedJaxpr) else freed
    return equation.replace(params=params | ({"prevent_cse": False} if delayed else {}))


def dynamic_arguments(args: Sequence[Any], static: tuple[int, ...]) -> list[Any]:
    return [arg for number, arg in enumerate(args) if number not in static]


def are_traced(leaves: Sequence[Any]) -> bool:
    """Return whether a step is called inside of a traced function."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)


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
    """Return the arguments that a step donates itself, which is known where it is one jitted call."""
    equations = jaxpr.jaxpr.eqns
    if len(equations) != 1 or "donated_invars" not in equations[0].params:
        return ()
    place = {var: number for number, var in enumerate(jaxpr.jaxpr.invars)}
    donated = zip(equations[0].invars, equations[0].params["donated_invars"], strict=True)
    return tuple(sorted(place[var] for var, given in donated if given and var in place))


def first_compiled(
    choices: Sequence[dict[str, Any]], compiled: Callable[[dict[str, Any]], Any]
) -> tuple[Any, int]:
    """Compile with the first options that XLA does not fail with; also return with how many it failed."""
    for failed, options in enumerate(choices[:-1]):
        try:
            return compiled(options), failed
        except jax.errors.JaxRuntimeError:
            continue
    return compiled(choices[-1]), len(choices) - 1
