"""Compile a step with XLA, and read its memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from checkmate.errors import NotCompiledError
from checkmate.models.error_text import first_line
from checkmate.tf.xla.memory import XlaMemory, read_memory

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
