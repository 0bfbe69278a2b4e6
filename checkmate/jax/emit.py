"""Run a program in the order of a schedule, equation by equation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from jax.extend.core import Literal

from checkmate.ir.schedule import Schedule
from checkmate.jax.fuse import Fusion
from checkmate.jax.program import Equation, Program, aval_bytes
from checkmate.jax.tie import Tie, can_anchor


class TiedSteps(Enum):
    """Which steps wait for the step before them.

    Recomputations do, or XLA would merge them away. Where all do, XLA keeps nearer to the schedule's order,
    but fuses less.
    """

    NONE = auto()
    RECOMPUTED = auto()
    ALL = auto()


def scheduled(
    program: Program, fused: Sequence[Fusion], schedule: Schedule, platform: str, ties: TiedSteps
) -> Callable[..., list[Any]]:
    """Return a function of the flat arguments that runs by ``schedule``."""
    steps = schedule.steps.tolist()

    def run(*arguments: Any) -> list[Any]:
        values = dict(zip(program.arguments, arguments, strict=True))
        values.update(program.constants)
        emission = _Emission(values, platform, ties)
        for step in steps:
            emission.step(step, fused[step])
        return [atom.val if isinstance(atom, Literal) else values[atom] for atom in program.results]

    return run


@dataclass
class _Emission:
    """The values so far, while a function is traced.

    ``fresh`` are the values that wait for the current ``tie`` already.
    """

    values: dict[int, Any]
    platform: str
    ties: TiedSteps
    done: set[int] = field(default_factory=set)
    fresh: set[int] = field(default_factory=set)
    anchor: Any = None
    tie: Tie | None = None

    def step(self, index: int, fusion: Fusion) -> None:
        """Emit one step of the schedule."""
        again = index in self.done
        self.done.add(index)
        if not again or self.ties is TiedSteps.ALL:
            self.fresh, self.tie = set(), None
        tied = self.ties is TiedSteps.ALL or (again and self.ties is TiedSteps.RECOMPUTED)
        if tied and self.tie is None and self.anchor is not None:
            self.tie = Tie(self.anchor, self.platform)
        made = self._run(fusion, self.tie if tied else None)
        self.values.update((value, made[value]) for value in fusion.writes)
        if again:
            self.fresh.update(fusion.writes)
        if not again or self.ties is TiedSteps.ALL:
            anchors = [made[value] for value in fusion.writes if can_anchor(made[value])]
            self.anchor = anchors[-1] if anchors else self.anchor

    def _run(self, fusion: Fusion, tie: Tie | None) -> dict[int, Any]:
        made: dict[int, Any] = {}
        late = set(self.fresh)
        for position, each in enumerate(fusion.equations):
            inputs = [
                atom.val if isinstance(atom, Literal) else made.get(atom, self.values.get(atom))
                for atom in each.inputs
            ]
            if tie is not None and position not in fusion.inline and not late.intersection(each.reads):
                _tie_one(each, inputs, tie)
                late.update(each.outputs)
            elif late.intersection(each.reads):
                late.update(each.outputs)
            made.update(zip(each.outputs, each.run(inputs), strict=True))
        return made


def _tie_one(each: Equation, inputs: list[Any], tie: Tie) -> None:
    """Tie the smallest operand, in place, wherever the equation reads it."""
    candidates = [atom for atom in each.source.invars if not isinstance(atom, Literal)]
    if not candidates:
        return
    least = min(candidates, key=lambda atom: aval_bytes(atom.aval))
    places = [place for place, atom in enumerate(each.source.invars) if atom is least]
    tied = tie.operand(inputs[places[0]])
    for place in places:
        inputs[place] = tied
