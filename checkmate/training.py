"""Train a compiled Keras model within a memory budget.

It trains in the user's own process.

>>> model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
>>> model = checkmate.rematerialize(model, budget="6GiB")
>>> model.fit(x, y, batch_size=32, validation_split=0.1, callbacks=callbacks)
"""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any, TypeVar

from checkmate.arguments import budget_of
from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult
from checkmate.ir.schedule import Schedule
from checkmate.pipeline import Following, known_minimum, solve
from checkmate.progress import Report, never
from checkmate.solvers.problem import SolveOptions
from checkmate.terminal import progress_line
from checkmate.units import Budget

if TYPE_CHECKING:
    from checkmate.tf.training.plan import PlanRequest
    from checkmate.tf.training.train_step import TrainStep

_SECONDS = 20.0

Model = TypeVar("Model")


def rematerialize(
    model: Model,
    budget: str | int | Budget,
    *,
    example: Any = None,
    solver: str = "auto",
    options: SolveOptions | None = None,
    quiet: bool = False,
) -> Model:
    """Let a compiled Keras ``model`` train within ``budget``.

    ``fit`` and ``train_on_batch`` then run scheduled steps. The same model is returned. Everything else of it
    works as before: callbacks, metrics, validation, saving, distribution strategies. Compiling it again
    starts anew, with the same budget. A saved and loaded model is a plain one.

    ``budget`` is what the device's allocator may hold while a step runs, parameters and optimizer included:
    ``"6GiB"``, bytes, a share of what keeping everything requests (``"60%"``) or ``"min"``. Where training
    plainly fits, it stays plain.

    For each layout of batches (shapes and dtypes) the step is traced, scheduled and measured once: at the
    first such batch, or at once for ``example``, a batch as ``(x, y)`` or ``(x, y, sample_weight)`` (with a
    strategy: one replica's share of it). The model's state is left as it was. A smaller last batch has a plan
    of its own: plain if that fits, else the schedule already known if that fits, else solved again. A step
    that was tried may for once hold a few percent more than was predicted; it is not kept. A step seen over
    the budget later (by the allocator's highest mark) is solved again for less. Per-output losses are means
    over examples, also with a smaller last batch.

    ``options`` are for the solver, 20 s by default. ``quiet`` means no progress, and no line for each plan,
    on standard error.

    Raises:
        UsageError: ``model`` is not compiled, runs eagerly, or the budget cannot be read. TraceError: it has
        a ``train_step`` of its own. JitCompiledError: it is compiled with ``jit_compile=True``.
        NoScheduleError: the budget is impossible; the message names the least possible. Like errors of
        tracing and measuring (TraceError, ProfileError) it is raised by ``fit`` where no ``example`` was
        given.
    """
    from checkmate.tf.training.keras_model import prepare, replace_training

    replace_training(model, _plan_request(budget, solver, options, quiet))
    if example is not None:
        prepare(model, example)
    return model


def train_step(
    model: Any,
    budget: str | int | Budget,
    *,
    example: Any = None,
    solver: str = "auto",
    options: SolveOptions | None = None,
    quiet: bool = False,
) -> TrainStep:
    """Return the bare training step of a compiled Keras ``model``.

    It is for a loop of one's own. ``loss, predictions = step(x, y)`` updates weights, statistics and
    optimizer within ``budget``; metrics are the caller's. ``model.fit`` stays as it is. Arguments and errors
    are as for ``rematerialize``. See ``checkmate.tf.training.train_step.TrainStep`` for use inside
    ``tf.function`` and with distribution strategies.
    """
    from checkmate.tf.training.train_step import TrainStep

    step = TrainStep(model, _plan_request(budget, solver, options, quiet))
    if example is not None:
        step.prepare(*example)
    return step


def _plan_request(
    budget: str | int | Budget, solver: str, options: SolveOptions | None, quiet: bool
) -> PlanRequest:
    from checkmate.tf.training.plan import PlanRequest

    chosen = options or SolveOptions(time_limit_s=_SECONDS)

    def solve_here(
        graph: Graph, budget_bytes: int, start: Schedule | None, seconds: float | None, report: Report
    ) -> SolveResult:
        limit = chosen.time_limit_s if seconds is None else min(seconds, chosen.time_limit_s)
        now = dataclasses.replace(chosen, time_limit_s=limit, start=start or chosen.start)
        return solve(
            graph, budget_bytes, solver=solver, options=now, listener=Following(graph, report, never)
        )

    def tell(sentence: str) -> None:
        if not quiet:
            sys.stderr.write(f"checkmate: {sentence}\n")

    return PlanRequest(
        budget=budget_of(budget),
        solve=solve_here,
        least=lambda graph: known_minimum(graph).bytes,
        # A log file needs no progress: the line for each plan says it all.
        progress=lambda: progress_line(quiet=quiet or not sys.stderr.isatty()),
        tell=tell,
    )
