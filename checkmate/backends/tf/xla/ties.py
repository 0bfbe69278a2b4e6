"""Tie a recomputation to the step before it, so that XLA keeps both.

XLA merges an op with an earlier one that reads the same, and drops control edges. It cannot merge an op whose
input is a *select* on a predicate that it does not know. The predicate is computed from a value of the step
before, so the op also starts after that step. It is always true, and the select is always its first operand,
bit by bit. The select fuses into the op that reads it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import tensorflow as tf

from checkmate.ir.graph import Graph

_BITS = {1: tf.uint8, 2: tf.uint16, 4: tf.uint32, 8: tf.uint64}  # by the bytes of an element


class WaitPolicy(Enum):
    """Which steps wait for those before them.

    Recomputations do, or XLA would merge them away. Each run of them waits once (``RUNS``), or each of them
    waits for the one before, too (``RECOMPUTED``). XLA fuses more in the first way: it takes less time, and
    mostly less memory. ``VALUES``: a run waits once, by the largest value that it reads, and whatever reads
    that value later waits, too. Where all steps wait, XLA keeps nearer to the schedule's order; that may take
    less memory yet, fuses least, and compiles slower.

    Two are for a CPU alone. ``GATED``: as ``RUNS``, and products wait for gradients of weights
    (``backends.tf.xla.gates``); so they do in ``VALUES`` and ``RECOMPUTED``. ``HELD``: as ``GATED``, and
    what the schedule keeps is kept as it is (``checkmate.backends.tf.xla.pins``).
    """

    NONE = auto()
    RUNS = auto()
    GATED = auto()
    VALUES = auto()
    HELD = auto()
    RECOMPUTED = auto()
    ALL = auto()

    @property
    def once(self) -> bool:
        """Return whether a run of recomputations waits once."""
        return self in (WaitPolicy.RUNS, WaitPolicy.GATED, WaitPolicy.VALUES, WaitPolicy.HELD)


def ways_to_tie(graph: Graph) -> tuple[WaitPolicy, ...]:
    """Return the ways to try, in their order.

    For a convolution's gradient XLA transposes what was convolved, for a CPU. Where the value itself waits,
    the ops behind it do: a ResNet's schedule for 45 % took 10 MiB by ``GATED``, and 8 by ``VALUES``; its
    smallest took 8 by ``GATED``, and 7 by ``HELD``. Where nothing is convolved these take as much or more.
    """
    convolved = any("Conv" in op.type for op in graph.ops)
    if graph.device_kind != "cpu":
        return (
            WaitPolicy.RUNS,
            *((WaitPolicy.VALUES,) if convolved else ()),
            WaitPolicy.RECOMPUTED,
            WaitPolicy.ALL,
        )
    own = (WaitPolicy.VALUES, WaitPolicy.HELD) if convolved else ()
    return (WaitPolicy.RUNS, WaitPolicy.GATED, *own, WaitPolicy.RECOMPUTED, WaitPolicy.ALL)


def ways_to_order(graph: Graph) -> tuple[WaitPolicy, ...]:
    """Return the ways that change what a step takes without recomputation."""
    return (
        (WaitPolicy.RUNS, WaitPolicy.GATED, WaitPolicy.ALL)
        if graph.device_kind == "cpu"
        else (WaitPolicy.ALL,)
    )


def why_less(tied: WaitPolicy) -> str:
    """Say why a step takes less in which nothing is recomputed."""
    if tied is WaitPolicy.ALL:
        return "all steps run in their order"
    return "ops are put to XLA so that it holds less"


def usual_ways(graph: Graph) -> int:
    """Return how many of the ways are tried for each schedule."""
    return 3 if WaitPolicy.HELD in ways_to_tie(graph) else 2


@dataclass(eq=False)
class Ties:
    """Hold the predicates and selects made so far in ``graph``."""

    graph: Any
    predicates: dict[str, tf.Tensor] = field(default_factory=dict)
    count: int = 0

    def tie(self, operand: tf.Tensor, after: Sequence[tf.Tensor], scope: str) -> tf.Tensor:
        """Return ``operand``, not known before all of ``after`` are."""
        self.count += 1
        with tf.control_dependencies(None), tf.name_scope(f"{scope}/tie"):
            predicate = functools.reduce(tf.logical_and, map(self.always, after))
            return tf.where(predicate, operand, tf.zeros((), operand.dtype))

    def always(self, value: tf.Tensor) -> tf.Tensor:
        """Return a scalar that is true, computed from the first bits of ``value``."""
        if value.name not in self.predicates:
            first = tf.reshape(value, [-1])[0]
            self.predicates[value.name] = tf.not_equal(_bits(first) | 1, 0)
        return self.predicates[value.name]


def can_be_tied(tensor: tf.Tensor) -> bool:
    """Return whether a select can hand ``tensor`` on."""
    return tensor.dtype in _TIED and tensor.shape.is_fully_defined() and tensor.shape.num_elements() > 0


_TIED = frozenset(
    {
        tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int8, tf.uint8, tf.int16, tf.uint16, tf.int32,
        tf.uint32, tf.int64, tf.uint64, tf.bool,
    }
)  # fmt: skip


def _bits(scalar: tf.Tensor) -> Any:
    if scalar.dtype == tf.bool:
        return tf.cast(scalar, tf.uint8)
    bits = _BITS[scalar.dtype.size]
    return scalar if scalar.dtype == bits else tf.bitcast(scalar, bits)
