"""Compute powers with a constant exponent as TensorFlow's rewriting would.

A general power takes many times as long as a product: 46 of the 253 ms of a BERT's step. Scheduled steps on a
CPU run without the rewriting that sees to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from checkmate.backends.tf.emit.constants import value_of_constant
from checkmate.backends.tf.trace.dataflow import Structure
from checkmate.backends.tf.trace.op_kinds import is_cube

_AS = {1.0: tf.identity, 2.0: tf.square, 0.5: tf.sqrt, -0.5: tf.math.rsqrt, -1.0: tf.math.reciprocal}


def exponents(structure: Structure, constant: frozenset[int]) -> dict[int, float]:
    """Return the exponents of powers that have a kernel of their own.

    Keys are the indices of the ops. ``constant``: of those that depend on constants alone.
    """
    found: dict[int, float] = {}
    for index in structure.heavy:
        op = structure.ops[index]
        if op.type != "Pow" or not op.outputs[0].dtype.is_floating:
            continue
        base, exponent = op.inputs
        if base.shape != op.outputs[0].shape or exponent.shape.num_elements() != 1:
            continue
        if structure.index[exponent.op.name] not in constant:
            continue
        value = float(value_of_constant(structure, exponent).item())
        if value in _AS or is_cube(op):
            found[index] = value
    return found


def power(
    graph: Any, base: tf.Tensor, exponent: float, controls: Sequence[tf.Operation], name: str
) -> tf.Operation:
    """Return the op that raises ``base`` to an exponent of ``exponents``.

    Each op of it runs after ``controls``.
    """

    def made(function: Callable[..., tf.Tensor], name: str, *inputs: tf.Tensor) -> tf.Tensor:
        # TensorFlow leaves out a control edge that an input from the same context has.
        with graph.control_dependencies(None), graph.control_dependencies(list(controls)):
            return function(*inputs, name=name)

    if exponent not in _AS:  # the third power
        return made(tf.multiply, name, base, made(tf.square, f"{name}/square", base)).op
    return made(_AS[exponent], name, base).op
