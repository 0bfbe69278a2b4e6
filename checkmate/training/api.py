"""Train within a memory budget, in the user's own process.

>>> model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
>>> model = checkmate.rematerialize(model, budget="6GiB")
>>> model.fit(x, y, batch_size=32, validation_split=0.1, callbacks=callbacks)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar

from checkmate.arguments import on_miss_of, step_budget_of, target_of
from checkmate.errors import UsageError
from checkmate.machine.cost_store import plans_folder
from checkmate.machine.plan_store import PlanStore
from checkmate.machine.supported import require_backend
from checkmate.planning.plan_request import PlanRequest, training_solver
from checkmate.request import OnMiss, Target
from checkmate.runner import JAX
from checkmate.solvers.problem import SolveOptions
from checkmate.units import Budget

if TYPE_CHECKING:
    from checkmate.training.any_step import ScheduledFunction
    from checkmate.training.train_step import TrainStep

_SECONDS = 20.0

Model = TypeVar("Model")
OnMissLike = OnMiss | Literal["closest", "raise"]


def rematerialize(
    model: Model,
    budget: str | int | Budget,
    *,
    example: Any = None,
    on_miss: OnMissLike = "closest",
    solver: str = "auto",
    options: SolveOptions | None = None,
    cache: bool = True,
    quiet: bool = False,
    wait: bool = True,
    target: Target | str | None = None,
) -> Model:
    """Let a compiled Keras ``model`` train within ``budget``; the same model is returned.

    ``fit`` and ``train_on_batch`` then run scheduled steps, a ``train_step`` of the model's own included.
    Everything else works as before, and the model's state is left as it was. For each layout of batches
    (shapes and dtypes) the step is traced, scheduled and measured once: at the first such batch, or at once
    for ``example``, which is ``(x, y)`` or ``(x, y, sample_weight)`` (with a strategy: one replica's share).

    ``budget`` is what the device's allocator may hold while a step runs, parameters and optimizer included:
    ``"6GiB"``, bytes, a share of the plain step's measured peak (``"60%"``), or ``"min"``, the least that was
    kept. What others hold, such as another model, counts within bytes, and is added to a share. Where XLA
    compiles the step (``jit_compile=True``, ``target="xla"``, Keras on JAX) it is what XLA assigns, no step
    is run for a plan, and ``wait`` means nothing; on JAX neither does ``cache``.

    Where no schedule keeps the budget, the one whose measured peak is closest trains; where a step cannot be
    planned, it trains as before. A line says so; with ``on_miss="raise"`` both are errors. A step that the
    allocator later shows over the budget is solved again for less.

    ``options`` are for the solver, 20 s by default. ``cache`` keeps plans in the user's cache folder for the
    same step, device, budget, settings and versions. With ``wait=False`` training begins with the first
    schedule that fits, and a better one is solved for meanwhile. ``quiet`` writes nothing to standard error.

    Raises:
        UsageError: ``model`` is not compiled, runs eagerly, or an argument cannot be read.
        TraceError: the ``example`` is no batch of the model's.
        CheckmateError: with ``on_miss="raise"``, what kept the step from being planned, such as a
        NoScheduleError. ``fit`` raises it where no ``example`` was given.
    """
    if require_backend() == JAX:
        from checkmate.training.jax_keras import rematerialize_model

        wanted = {"on_miss": on_miss, "solver": solver, "options": options, "quiet": quiet}
        rematerialize_model(model, budget, example, **wanted)
        return model
    from checkmate.training.keras_model import prepare, replace_training

    request = _plan_request(budget, on_miss, solver, options, cache, quiet, wait, target)
    replace_training(model, request)
    if example is not None:
        prepare(model, example)
    return model


def train_step(
    model: Any,
    budget: str | int | Budget,
    *,
    example: Any = None,
    on_miss: OnMissLike = "closest",
    solver: str = "auto",
    options: SolveOptions | None = None,
    cache: bool = True,
    quiet: bool = False,
    wait: bool = True,
    target: Target | str | None = None,
) -> TrainStep:
    """Return the bare training step of a compiled Keras ``model``.

    It is for a loop of one's own. ``loss, predictions = step(x, y)`` updates weights, statistics and
    optimizer within ``budget``; metrics are the caller's. ``model.fit`` stays as it is. ``example`` is
    ``(x, y)`` or ``(x, y, sample_weight)``. Other arguments and errors are as for ``rematerialize``, but a
    model with a ``train_step`` of its own is a TraceError. What XLA is to compile (``jit_compile=True``, or
    ``target``) and cannot is a NotCompiledError here. The allocator is not watched later. See
    ``training.train_step.TrainStep`` for use inside ``tf.function`` and with distribution
    strategies.
    """
    if require_backend() == JAX:
        raise UsageError(
            "with Keras on JAX a step is a function, and has no variables of its own",
            hint="call checkmate.rematerialize(model, budget) and train by fit, or "
            "checkmate.jax.rematerialize(model.train_step, budget, donate_argnums=0)",
        )
    from checkmate.training.train_step import TrainStep

    request = _plan_request(budget, on_miss, solver, options, cache, quiet, wait, target)
    step = TrainStep(model, request)
    if example is not None:
        step.prepare(*(example if isinstance(example, tuple | list) else (example,)))
    return step


def rematerialize_function(
    step: Any,
    budget: str | int | Budget,
    *,
    example: Any = None,
    on_miss: OnMissLike = "closest",
    solver: str = "auto",
    options: SolveOptions | None = None,
    cache: bool = True,
    quiet: bool = False,
    wait: bool = True,
    target: Target | str | None = None,
) -> ScheduledFunction:
    """Return ``step``, a training step of tensors, within ``budget``.

    ``step`` is a ``tf.function``, or a Python function that can be one. It takes and returns tensors in any
    structure, and its state is in variables. Losses, tapes, optimizers and averages are its own, as many as
    it likes. What is returned is called like ``step``; it returns the same and writes the same variables.
    What runs once in a step (assignments, random seeds, counters) still runs once, in the same order.

    ``example`` is what the step is called with: a tuple of its arguments, or its only argument. Without it
    the plan is made at the first call. Each layout of tensors (shapes and dtypes) has its plan; arguments
    that are no tensors are constants of their layout. For a step that the replicas of a ``MirroredStrategy``
    run, call this inside its ``scope()``, with one replica's share as the ``example``, and what is returned
    in ``strategy.run``. Other arguments are as for ``rematerialize``. A step is run a few times to measure
    it; its variables are put back, but what it prints is printed each time.

    A ``tf.function`` with ``jit_compile=True`` runs compiled by XLA, and so does any with ``target="xla"``.
    The budget is then for what XLA assigns, as for ``rematerialize``, and no step is run for it.

    Raises:
        UsageError: ``step`` is no function of tensors, or the budget cannot be read.
        NotCompiledError: XLA is to compile it, and cannot.
        TraceError, JitCompiledError: of an ``example`` the step cannot be traced, calls Python, takes data
        from an iterator, keeps state outside of variables, or is compiled by XLA in part or on replicas.
        CheckmateError: with ``on_miss="raise"``, as for ``rematerialize``.
    """
    from checkmate.training.any_step import ScheduledFunction

    request = _plan_request(budget, on_miss, solver, options, cache, quiet, wait, target)
    found = ScheduledFunction(step, request)
    if example is not None:
        found.prepare(*(example if isinstance(example, tuple) else (example,)))
    return found


def _plan_request(
    budget: str | int | Budget,
    on_miss: OnMissLike,
    solver: str,
    options: SolveOptions | None,
    cache: bool,
    quiet: bool,
    wait: bool = True,
    target: Target | str | None = None,
) -> PlanRequest:
    return PlanRequest(
        budget=step_budget_of(budget),
        solver=training_solver(solver, options, _SECONDS),
        on_miss=on_miss_of(on_miss),
        quiet=quiet,
        store=PlanStore(plans_folder()) if cache else None,
        wait=wait,
        target=target_of(target),
    )
