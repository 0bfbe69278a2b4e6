"""Trace a step's loops as XLA compiles them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from checkmate.tf.trace.loops.trips import is_loop
from checkmate.tf.trace.variables import tracing_once


def concrete_step(
    body: Callable[..., Any], specs: Sequence[tf.TensorSpec], *, for_xla: bool
) -> tuple[Any, bool]:
    """Return the concrete function of ``body``, and whether XLA has its loops.

    Where XLA is to compile it, TensorFlow writes loops in another way: their lists have a length that is
    known. So a step with loops is traced again.
    """
    concrete = tf.function(tracing_once(body), autograph=False).get_concrete_function(*specs)
    if not (for_xla and any(map(is_loop, concrete.graph.get_operations()))):
        return concrete, False
    function = tf.function(tracing_once(body), autograph=False, jit_compile=True)
    return function.get_concrete_function(*specs), True
