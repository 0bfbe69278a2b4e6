"""Trace a step once though it creates variables.

TensorFlow traces a function a second time if its first trace created variables, such as an optimizer's slots
and the sums of metrics. Those begin with a constant, so they can as well be created outside of the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

import tensorflow as tf

from checkmate.backends.tf.trace.loops.trips import is_loop

Result = TypeVar("Result")

# All ops that Keras's zeros, ones and constants are made of.
_CONSTANT = frozenset({"Const", "Fill", "Cast", "Reshape", "BroadcastTo", "Identity"})


def tracing_once(body: Callable[..., Result]) -> Callable[..., Result]:
    """Return ``body`` for a ``tf.function`` that is traced only once.

    Variables that begin with a constant are created outside of the trace, each with the value that it would
    have got. Others, and those of a distribution strategy, are left to TensorFlow, which then traces twice.
    """

    @wraps(body)
    def traced(*given: Any, **named: Any) -> Result:
        with tf.variable_creator_scope(_created_outside):
            return body(*given, **named)

    return traced


def _created_outside(create: Callable[..., Any], **options: Any) -> Any:
    """Create a variable; outside of the trace if it begins with a constant."""
    value = options.get("initial_value")
    constant = None if value is None or tf.distribute.has_strategy() else _constant(value)
    if constant is None:
        return create(**options)
    with tf.init_scope():
        return create(**options | {"initial_value": constant, "experimental_enable_variable_lifting": False})


def _constant(value: Any) -> Any:
    """Return the constant that ``value`` is or makes, or what makes it.

    Return None if it is something else. What makes it is tried in a graph of its own, where it can read
    nothing of the trace. Where that shows no constant, TensorFlow calls it again: of numbers that Python
    draws in it, the next ones are taken then.
    """
    if not callable(value):
        return tf.get_static_value(value) if tf.is_symbolic_tensor(value) else value
    with tf.Graph().as_default() as graph:
        try:
            made = value()
        except Exception:  # it reads the trace, or is the user's code, which may raise what it likes
            return None
        if any(op.type not in _CONSTANT for op in graph.get_operations()):
            return None
        if not tf.is_tensor(made):
            return made
        # Python may have drawn its numbers just now. Zeros of any size are better made on the device.
        return tf.get_static_value(made) if made.op.type == "Const" else value


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
