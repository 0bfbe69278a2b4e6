"""The steps that are measured, as concrete functions: plain or scheduled, for the executor or for XLA."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import tensorflow as tf

from checkmate.backends.tf.devices import deterministic, is_not_deterministic
from checkmate.backends.tf.emit.ordered import ordered_step
from checkmate.backends.tf.memory_check import explain_exhausted_memory, first_line_of
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.trace.own_recomputation import fold_recomputation
from checkmate.backends.tf.trace.trace import step_function
from checkmate.backends.tf.xla.compiled import StepCompilation, compile_step
from checkmate.backends.tf.xla.tied import XlaEmission, tied_step
from checkmate.errors import CheckmateError, CycleError
from checkmate.ir import Schedule

_T = TypeVar("_T")


def schedule_of(folded: FoldedStep, steps: Sequence[int] | None) -> Schedule:
    return Schedule.plain(folded.graph) if steps is None else Schedule.of(folded.graph, list(steps))


def step_body(
    folded: FoldedStep,
    steps: Sequence[int] | None,
    *,
    with_gradients: bool = False,
    xla: XlaEmission | None = None,
    as_written: bool = False,
) -> Callable[..., Any]:
    """Return the plain step (``steps`` None) or the scheduled one as a function to be traced; it returns
    loss, predictions and gradients.

    ``xla``: how to emit it for XLA; None: for the executor. ``as_written``: the plain step keeps the user's
    own recomputation.
    """
    loaded = folded.traced.loaded
    body: Callable[..., Any]
    own = folded.traced.unplanned
    if steps is None and own is not None:
        function = folded.traced.as_written if as_written else own.function

        def body(*tensors: tf.Tensor) -> Any:
            loss, *found = function(*tensors)
            return loss, tuple(found), ()
    elif steps is None:
        plain = step_function(loaded)

        def body(*tensors: tf.Tensor) -> Any:
            loss, predictions, gradients = plain(*tensors)
            # Gradients are compared with those of the step as it was written.
            if not (with_gradients or as_written):
                fold_recomputation(tf.compat.v1.get_default_graph().get_operations())
            return loss, tuple(predictions), tuple(map(tuple, gradients)) if with_gradients else ()
    else:
        emit: Callable[..., Any] = ordered_step
        if xla is not None:
            emit = partial(tied_step, tied=xla.tied, compiled=xla.compiled)
        scheduled = emit(folded, Schedule.of(folded.graph, list(steps)), with_gradients=with_gradients)

        def body(*tensors: tf.Tensor) -> Any:
            outputs = scheduled(*tensors)
            return outputs.loss, outputs.predictions, outputs.gradients

    return body


def compiled_step(
    folded: FoldedStep,
    steps: Sequence[int] | None,
    *,
    with_gradients: bool = False,
    xla: XlaEmission | None = None,
    as_written: bool = False,
) -> Any:
    """Return the ``step_body`` as a concrete function of inputs and labels."""
    loaded = folded.traced.loaded
    unchanged = loaded.own is None and not folded.traced.taken_out
    if steps is None and with_gradients and xla is None and unchanged:
        return folded.traced.as_traced
    body = step_body(folded, steps, with_gradients=with_gradients, xla=xla, as_written=as_written)
    compiled = True if xla is not None and xla.compiled else None  # None: inherited from the caller
    function = tf.function(body, autograph=False, jit_compile=compiled)
    return function.get_concrete_function(*loaded.specs)


def compiled_memory(
    folded: FoldedStep, steps: list[int] | None, xla: XlaEmission, *, as_written: bool = False
) -> StepCompilation:
    body = step_body(folded, steps, xla=xla, as_written=as_written)
    return compile_step(body, folded.traced.loaded.specs)


def run_step(function: Any, batch: Sequence[tf.Tensor]) -> Any:
    """A CycleError: TensorFlow's passes merged ops across the emitted order."""
    try:
        with explain_exhausted_memory("the step"):
            return function(*batch)
    except tf.errors.OpError as error:
        if "cycle" in str(error).lower():
            raise CycleError(
                f"TensorFlow rejected the emitted order: {first_line_of(error)}",
                hint="report the model; "
                'device="cpu" with TF_ENABLE_ONEDNN_OPTS=0 avoids the fusion that causes it',
            ) from error
        said = f"the step failed to run: {first_line_of(error)}"
        raise CheckmateError(said, hint="use a smaller batch") from error


def run_deterministically(kind: str, made: Callable[[], Callable[[], _T]]) -> tuple[_T, str]:
    """Call what ``made`` returns with deterministic kernels; return its result and "".

    If an op has no deterministic kernel, make it again and call it without; return its result and a note.
    ``kind``: of the device. Only ``made`` traces steps (``deterministic``).
    """
    run = made()
    try:
        with deterministic(kind):
            return run(), ""
    except (CheckmateError, tf.errors.UnimplementedError) as error:
        reason = error.__cause__ if isinstance(error, CheckmateError) else error
        if not is_not_deterministic(reason):
            raise
        said = str(reason).strip().splitlines()[0][:200]
        note = (
            "gradients were compared within the plain step's own spread, not bit by bit: "
            f"an op has no deterministic kernel on this GPU ({said})"
        )
        return made()(), note
