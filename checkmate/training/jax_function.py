"""``rematerialize``: a JAX training step that keeps a memory budget.

>>> step = checkmate.jax.rematerialize(train_step, "60%", donate_argnums=(0,))
>>> state, loss = step(state, batch)
>>> step.report.sentence
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import jax

from checkmate.arguments import BudgetLike
from checkmate.backends.jax.exported import JaxExport, write_step
from checkmate.backends.jax.report import JaxReport
from checkmate.backends.jax.step import JaxPlan, are_traced
from checkmate.errors import UsageError
from checkmate.formats.files import put_in_place, staging
from checkmate.ir import Graph
from checkmate.request import OnMiss
from checkmate.solvers.problem import SolveOptions
from checkmate.training.jax_planner import JaxPlanner, JaxRequest, request_of


class Rematerialized:
    """A training step within a budget; it is called like the step itself.

    Each layout of arguments (structure, shapes, types) has its plan, made at its first call. Where planning
    fails, ``plain`` runs as before.
    """

    def __init__(
        self, step: Callable[..., Any], request: JaxRequest, plain: Callable[..., Any] | None = None
    ) -> None:
        self._planner, self._plain = JaxPlanner(step, request), plain
        self._ran: set[int] = set()  # plans that ran, by their places
        self.__wrapped__ = step
        self.__name__ = getattr(step, "__name__", "step")

    def __call__(self, *args: Any) -> Any:
        """Run the step.

        The first call of a plan waits for its results: XLA may still make machine code then, on threads of
        its own, and a program had better not end meanwhile.
        """
        plan = self._planner.plan_to_train(args)
        if plan is None:
            self._plain = self._plain or _jitted(self._planner)
            return self._plain(*args)
        result = plan.call(args)
        number = self._planner.plans.index(plan)
        if number not in self._ran and not are_traced(jax.tree.leaves(result)):
            self._ran.add(number)
            jax.block_until_ready(result)
        return result

    def prepare(self, *args: Any) -> JaxReport | None:
        """Make the plan for such arguments now; None: their step runs as before.

        They may be ``jax.ShapeDtypeStruct``.
        """
        plan = self._planner.plan_to_train(args, example=True)
        return None if plan is None else plan.report

    def portable_plan(self, *args: Any) -> JaxPlan:
        """Return the plan for such arguments that holds in any program.

        Without arguments it is for those of the last plan.

        Raises:
            UsageError: there is no plan yet, and no arguments are given.
        """
        if not args:
            self.report  # noqa: B018 - raises where there is no plan
            args = self._planner.plans[-1].example
        return self._planner.plan(args, part=True)

    def tell(self, sentence: str) -> None:
        """Say something on standard error, unless it was made ``quiet``."""
        self._planner.request.tell(sentence)

    @property
    def report(self) -> JaxReport:
        """Return the report of the plan that was made last.

        Raises:
            UsageError: there is none yet.
        """
        if not self._planner.plans:
            raise UsageError(
                "no plan was made yet", hint="call the step, or step.prepare(*arguments), or pass example="
            )
        return self._planner.plans[-1].report

    @property
    def plans(self) -> tuple[JaxPlan, ...]:
        """Return the plans of all layouts, in the order in which they were made."""
        return tuple(self._planner.plans)


def _jitted(planner: JaxPlanner) -> Callable[..., Any]:
    step, static, donated = planner.step, planner.request.static, planner.request.donated
    if hasattr(step, "lower") and donated is None and not static:
        return step  # it is under jax.jit already
    made: Callable[..., Any] = jax.jit(step, static_argnums=static, donate_argnums=donated or ())
    return made


def rematerialize(
    step: Callable[..., Any],
    budget: BudgetLike,
    *,
    example: tuple[Any, ...] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    static_argnums: int | Sequence[int] = (),
    of: Literal["whole", "temporary"] = "whole",
    on_miss: OnMiss | Literal["closest", "raise"] = "closest",
    solver: str = "auto",
    options: SolveOptions | None = None,
    quiet: bool = False,
) -> Rematerialized:
    """Return ``step``, a JAX training step, compiled within ``budget``.

    ``step`` is a function of pytrees that computes gradients and returns the new state, plain or under
    ``jax.jit``: Flax's, Equinox's and Optax's are such functions. What is returned is called like it, with
    positional arguments, and returns the same.

    The budget is what XLA's compiled step holds: arguments, results and temporary buffers, an argument that
    is donated and its result once. It is ``"6GiB"``, bytes, or ``"60%"`` of what the plain compiled step
    holds. With ``of="temporary"`` it is of the temporary buffers alone. All is read from XLA's own plan of
    its buffers: the step is compiled several times, and never run. What XLA reports is kept, not what the
    allocator below it makes of it.

    ``example`` is a tuple of arguments, or of ``jax.ShapeDtypeStruct``; without it the plan is made at the
    first call. ``donate_argnums`` and ``static_argnums`` are as for ``jax.jit``; the donation of a step that
    is under ``jax.jit`` is kept.

    Random numbers are equal in a recomputation, since keys are values. Equations with effects (callbacks,
    prints) run once, in their order. Loops (``scan``, ``while_loop``) and branches are one op each.

    Where no schedule keeps the budget, the one that is least over it is compiled, and a sentence says by how
    much. Where the step cannot be planned, it runs as before, and the sentence says why. ``on_miss="raise"``
    raises an error instead, and so does a wrong ``example``. ``options`` are for the solver, for each of
    several solves, 5 s by default. ``quiet`` means no progress, and no line for each plan, on standard error.

    Raises:
        UsageError: an argument cannot be read. TraceError: the step cannot be traced with the ``example``.
        CheckmateError: with ``on_miss="raise"``, what kept it from being planned, such as a NotCompiledError
        or a NoScheduleError.
    """
    if not callable(step):
        raise UsageError(f"{step!r} is no function", hint="pass the training step itself, not its result")
    request = request_of(
        budget,
        donate_argnums=donate_argnums,
        static_argnums=static_argnums,
        of=of,
        on_miss=on_miss,
        solver=solver,
        options=options,
        quiet=quiet,
    )
    found = Rematerialized(step, request)
    if example is not None:
        found.prepare(*example)
    return found


def profile(
    step: Callable[..., Any],
    *args: Any,
    donate_argnums: int | Sequence[int] | None = None,
    static_argnums: int | Sequence[int] = (),
    quiet: bool = False,
) -> Graph:
    """Return the graph of a JAX step, to solve or to look at in the window.

    ``args`` are what the step is called with, or ``jax.ShapeDtypeStruct``. Ops are what XLA will probably
    fuse; layers are JAX's name stacks. Costs are counted. Arguments and results are fixed bytes. ``quiet``
    means no progress on standard error.

    >>> checkmate.write_graph(Path("step.graph.json"), checkmate.jax.profile(train_step, state, batch))

    Raises:
        UsageError, TraceError: as for ``rematerialize``.
    """
    request = request_of("100%", donate_argnums=donate_argnums, static_argnums=static_argnums, quiet=quiet)
    return JaxPlanner(step, request).graph(args)


def export(step: Rematerialized, folder: str | Path, *args: Any) -> JaxExport:
    """Write a scheduled step into a folder, for programs with JAX alone.

    ``step`` is what ``checkmate.jax.rematerialize`` returned. ``args`` are what it is called with, or
    ``jax.ShapeDtypeStruct``; without any it is written for the arguments of its last plan. The folder has the
    step as ``jax.export`` serializes it (``step.jax-export``), and ``export.json``, which says what it takes
    and returns. It appears whole or not at all.

    >>> checkmate.jax.export(step, "out", state, batch)
    >>> read = jax.export.deserialize(Path("out/step.jax-export").read_bytes())
    >>> step = jax.jit(read.call, donate_argnums=0)

    A file keeps no donation and no compiler's options. So ``jax.jit`` is told again what is donated
    (``donate_argnums`` of what is returned), and a plan that XLA's options are needed for is made anew
    without. Static arguments are constants of the file: they are left out of calls. The file is for one
    layout of arguments and for the platform that JAX runs on here.

    The file is read and compiled again, not run; ``reloaded`` of what is returned is what XLA then says.
    Where that is over the budget, ``problems`` and one sentence on standard error say so.

    A tree with types of its own (``optax``'s states, ``flax.struct``) can be in a file only if they are
    registered, with ``jax.export.register_namedtuple_serialization`` for example. Where they are not, the
    step takes and returns flat arrays (``leaves``), in the order of ``jax.tree.leaves``.

    Raises:
        UsageError: ``step`` is not scheduled, or there is no plan yet. ExportError: JAX cannot export it, or
        the folder cannot be written. Others as ``rematerialize``.
    """
    if not isinstance(step, Rematerialized):
        raise UsageError(
            f"{getattr(step, '__name__', step)!s} is no scheduled step",
            hint='export what checkmate.jax.rematerialize(step, "60%") returns',
        )
    plan = step.portable_plan(*args)
    with staging(Path(folder)) as staged:
        found = write_step(plan, step.__name__, staged, Path(folder))
        put_in_place(staged, Path(folder))
    step.tell(found.sentence)
    return found
