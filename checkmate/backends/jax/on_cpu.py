"""What a schedule needs beside its ties where XLA:CPU compiles it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkmate.backends.jax.fuse import Fusion
from checkmate.backends.jax.gate import Gate, ends
from checkmate.backends.jax.pin import Pin, small_results, sums
from checkmate.backends.jax.pooling import can_compare, compared
from checkmate.backends.jax.program import Equation, Program


@dataclass(frozen=True)
class ForCpu:
    """The values of a program that XLA:CPU needs help with.

    ``kept`` have to be pinned; ``ends`` have to be made in time.
    """

    program: Program
    kept: frozenset[int]
    ends: frozenset[int]

    @staticmethod
    def of(program: Program, fused: Sequence[Fusion]) -> ForCpu:
        kept = small_results(program, fused) | sums(program, fused)
        return ForCpu(program, kept, ends(program, fused))

    def traced(self, arguments: Sequence[Any], *, gates: bool) -> OnCpu:
        return OnCpu(self.kept, Pin(arguments), Gate(self.program, self.ends) if gates else None)


@dataclass(frozen=True)
class OnCpu:
    """Helps XLA:CPU while a schedule is traced."""

    kept: frozenset[int]
    pin: Pin
    gate: Gate | None

    def operands(self, fusion: Fusion, values: Mapping[int, Any]) -> dict[int, Any]:
        """Return those operands of a step that are read otherwise."""
        return {} if self.gate is None else self.gate.operands(fusion, values)

    def keep(self, fusion: Fusion, made: dict[int, Any]) -> None:
        """Pin what a step has made, if it has to be kept. What is not waited for is noted."""
        made.update((value, self.pin.value(made[value])) for value in self.kept.intersection(fusion.writes))
        if self.gate is not None:
            self.gate.note(fusion, made)

    def made_by(self, each: Equation, inputs: Sequence[Any]) -> list[Any] | None:
        """Return what an equation gives, where it is computed otherwise."""
        if each.name == "select_and_scatter_add" and can_compare(each.source.params):
            slope, operand = inputs
            return [compared(slope, operand, each.source.params, self.pin.value)]
        return None
