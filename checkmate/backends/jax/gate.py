"""Let XLA:CPU compute what nothing waits for before it goes on.

Its scheduler for memory puts the gradients of weights and biases off: as it counts, they free little. But
they read the slopes of whole layers, which are held until then. So the next product of the chain waits for
them, by a select on its smallest operand, as a rule a weight. A select copies that, and no more.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import jax.numpy as jnp

from checkmate.backends.jax.fuse import Fusion
from checkmate.backends.jax.primitives import PRODUCTS, REDUCTIONS
from checkmate.backends.jax.program import Program
from checkmate.backends.jax.tie import always, can_anchor

_COPIED = 4  # times smaller than the largest operand is what a select may copy


def ends(program: Program, fused: Sequence[Fusion]) -> frozenset[int]:
    """Return the values that are read only to make results.

    Gradients of weights are, where the step updates these. A bias's gradient may be summed in two steps.
    """
    results = frozenset(atom for atom in program.results if isinstance(atom, int))
    found = _read_for(fused, results)
    sums = [each for each in fused if each.root.name in REDUCTIONS and found.issuperset(each.writes)]
    small = {
        value
        for each in sums
        for value in each.reads
        if program.bytes_of(value) <= 2 * max(map(program.bytes_of, each.writes))
    }
    return found | (_read_for(fused, found) & small)


def _read_for(fused: Sequence[Fusion], written: frozenset[int]) -> frozenset[int]:
    other = {value for each in fused if not written.issuperset(each.writes) for value in each.reads}
    return frozenset(value for each in fused for value in each.reads) - other


@dataclass
class Gate:
    """Makes products wait for the ends before them.

    ``ends``: the values that nothing of the chain waits for.
    """

    program: Program
    ends: frozenset[int]
    passed: list[Any] = field(default_factory=list)

    def operands(self, fusion: Fusion, values: Mapping[int, Any]) -> dict[int, Any]:
        """Return the operand that waits, if one does, as it has to be read."""
        if not self.passed or not _multiplies(fusion) or self.ends.issuperset(fusion.writes):
            return {}
        sizes = sorted((self.program.bytes_of(value), value) for value in fusion.reads)
        (least, value), (most, _) = sizes[0], sizes[-1]
        if least * _COPIED > most or not can_anchor(values[value]):
            return {}
        predicate = reduce(operator.and_, map(always, self.passed))
        self.passed = []
        return {value: jnp.where(predicate, values[value], jnp.zeros_like(values[value]))}

    def note(self, fusion: Fusion, values: Mapping[int, Any]) -> None:
        """Note the ends that a step has made."""
        if _multiplies(fusion) or fusion.root.name in REDUCTIONS:
            made = self.ends.intersection(fusion.writes)
            self.passed += [values[value] for value in sorted(made) if can_anchor(values[value])]


def _multiplies(fusion: Fusion) -> bool:
    return any(each.name in PRODUCTS for each in fusion.equations)
