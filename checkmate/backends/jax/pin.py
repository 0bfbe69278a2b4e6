"""Keep results in memory, not what they are computed from.

XLA:CPU computes cheap equations again in each fusion that reads them, whatever the sizes. So a step holds
dropout's random bits until its backward pass, not the mask, which is a quarter of them. And each norm of a
transformer adds up the results of all blocks before it. No barrier changes that: they are gone before XLA
fuses. A conditional does, since it is no part of a fusion.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from checkmate.backends.jax.fuse import Fusion
from checkmate.backends.jax.primitives import ELEMENTWISE, FUSIBLE, PRODUCTS
from checkmate.backends.jax.program import Program
from checkmate.backends.jax.tie import always, can_anchor

_SMALLER = 2  # times less than the largest value it is made of
_LEAST = 16 * 2**10  # bytes; what is less is not worth a conditional
_LEAST_SUM = 2**20  # bytes, that a conditional copies: smaller ones were not measured


def small_results(program: Program, fused: Sequence[Fusion]) -> frozenset[int]:
    """Return the values that XLA:CPU would not keep for their readers.

    A product is in no fusion: where it reads a value, XLA keeps that anyhow.
    """
    fusing = {value for fusion in fused if fusion.root.name not in PRODUCTS for value in fusion.reads}
    found = set()
    for fusion in fused:
        most = max((program.bytes_of(value) for value in fusion.reads), default=0)
        cheap = {value for each in fusion.equations if each.name in ELEMENTWISE for value in each.outputs}
        for value in cheap.intersection(fusion.writes, fusing):
            if program.bytes_of(value) >= _LEAST and _SMALLER * program.bytes_of(value) <= most:
                found.add(value)
    return frozenset(found.difference(atom for atom in program.results if isinstance(atom, int)))


def sums(program: Program, fused: Sequence[Fusion]) -> frozenset[int]:
    """Return the values that XLA:CPU would add up again for each reader.

    They are made of two results or more, each about as large, and a fusion is among their readers. An
    MLP-Mixer within 30 % took 16 % more time than plainly where they were not kept, and takes 32 % less where
    they are. What is at least half of convolutions is left as it is: a ResNet would hold more, and take no
    less time.
    """
    readers: dict[int, list[Fusion]] = {}
    for fusion in fused:
        for value in fusion.reads:
            readers.setdefault(value, []).append(fusion)
    convolved = {value for fusion in fused if _convolves(fusion) for value in fusion.writes}
    behind: dict[int, frozenset[int]] = {}
    found = set()
    for fusion in fused:
        if not FUSIBLE.issuperset(each.name for each in fusion.equations):
            continue
        leaves = frozenset(leaf for value in fusion.reads for leaf in behind.get(value, (value,)))
        for value in fusion.writes:
            size, reading = program.bytes_of(value), readers.get(value, [])
            large = {leaf for leaf in leaves if _SMALLER * program.bytes_of(leaf) >= size}
            added = len(large) > 1 and 2 * len(large & convolved) < len(large)
            fuses = len(reading) > 1 and any(each.root.name not in PRODUCTS for each in reading)
            if size >= _LEAST_SUM and added and fuses:
                found.add(value)
            else:
                behind[value] = leaves
    return frozenset(found.difference(atom for atom in program.results if isinstance(atom, int)))


def _convolves(fusion: Fusion) -> bool:
    return any(each.name == "conv_general_dilated" for each in fusion.equations)


class Pin:
    """Makes values stay in memory, without changing them.

    The predicate is always true, but computed from one of ``arguments``. So XLA cannot leave out the other
    branch. Where nothing can be computed from any of them, nothing is pinned.
    """

    def __init__(self, arguments: Sequence[Any]) -> None:
        self._anchor = next((value for value in arguments if can_anchor(value)), None)
        self._predicate: Any = None

    def value(self, value: Any) -> Any:
        """Return ``value``, bit by bit, as something that is kept."""
        if self._anchor is None:
            return value
        if self._predicate is None:
            self._predicate = always(self._anchor)
        return lax.cond(self._predicate, lambda kept: kept, jnp.zeros_like, value)
