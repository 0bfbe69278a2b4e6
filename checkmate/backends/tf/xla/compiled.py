"""Compile a step with XLA, read its memory, and save it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from checkmate.backends.tf.emit.saved_model import save_function, with_names
from checkmate.backends.tf.emit.small_chunks import SmallChunks
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.xla.emission import XlaEmission
from checkmate.backends.tf.xla.emit import tied_step
from checkmate.backends.tf.xla.memory import XlaMemory, read_memory
from checkmate.errors import NotCompiledError
from checkmate.ir.schedule import Schedule
from checkmate.models.keras_graph import first_line

_STAGE = "optimized_hlo_proto_serialized"


@dataclass(frozen=True, eq=False)
class StepCompilation:
    """Hold what XLA said of a step: its memory, and how long compiling took."""

    memory: XlaMemory
    seconds: float


def compile_step(body: Callable[..., Any], specs: Sequence[tf.TensorSpec]) -> StepCompilation:
    """Compile ``body`` for tensors like ``specs``, and run nothing.

    Raises:
        NotCompiledError: XLA cannot compile it.
    """
    started = time.perf_counter()
    function = tf.function(body, autograph=False, jit_compile=True)
    try:
        serialized = function.experimental_get_compiler_ir(*specs)(stage=_STAGE)
    except (ValueError, TypeError, NotImplementedError, tf.errors.OpError) as error:
        raise NotCompiledError(
            f"XLA cannot compile the step: {first_line(error)}",
            hint="compile the model with jit_compile=False, so that TensorFlow's executor runs it",
        ) from error
    return StepCompilation(read_memory(serialized), time.perf_counter() - started)


def save_compiled_step(folded: FoldedStep, schedule: Schedule, xla: XlaEmission, directory: Path) -> None:
    """Write a SavedModel whose ``train_step`` runs ``schedule`` under XLA.

    It takes and returns what the one of ``backends.tf.emit.saved_model.save_step`` does. XLA compiles it at
    its first call.

    Raises:
        ExportError: TensorFlow could not write it.
    """
    body = with_names(folded, tied_step(folded, schedule, tied=xla.tied))
    chunks = SmallChunks(None, region=xla.region)
    save_function(folded, body, directory, small_chunks=chunks, compiled=True)
