"""Run a program in the order of a schedule, equation by equation."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from jax.extend.core import Literal

from checkmate.backends.jax.fusions import Fusion
from checkmate.backends.jax.graph import phase_of
from checkmate.backends.jax.program import DEAR, FUSIBLE, PRODUCTS, REDUCTIONS, Equation, Program, aval_bytes
from checkmate.backends.jax.ties import ForCpu, OnCpu, Tie, can_anchor, scattered_late
from checkmate.backends.xla_policy.waits import Waiting, WaitPolicy
from checkmate.ir import Phase, Schedule

_KEY_BYTES = 1024  # values up to this size, such as random keys, are cheap for a select to copy


@dataclass(frozen=True)
class Emitted:
    """How a schedule is emitted for XLA. ``ties``: which steps wait; ``waiting``: by which operations;
    ``cpu``: with pins and gates for XLA:CPU."""

    ties: WaitPolicy
    waiting: Waiting
    cpu: bool = False

    @property
    def barriers(self) -> bool:
        return self.waiting is not Waiting.SELECTS

    @property
    def gates(self) -> bool:
        return self.waiting in (Waiting.GATES, Waiting.MIXED)


def tied_step(
    program: Program, fused: Sequence[Fusion], schedule: Schedule, emitted: Emitted
) -> Callable[..., list[Any]]:
    """Return a function of the flat arguments that runs by ``schedule``."""
    steps = schedule.steps.tolist()
    needed, depths = _Needed.of(program, fused, steps), _depths(fused)
    convolved = any(each.name == "conv_general_dilated" for each in program.equations)
    for_cpu = ForCpu.of(program, fused) if emitted.cpu else None

    def run(*arguments: Any) -> list[Any]:
        values = program.given(arguments)
        on_cpu = None if for_cpu is None else OnCpu(for_cpu, arguments, gates=emitted.gates)
        emission = _Emission(values, emitted, needed, depths, convolved, on_cpu)
        for position, step in enumerate(steps):
            emission.step(position, step, fused[step])
        return program.returned(values)

    return run


@dataclass(frozen=True)
class _Needed:
    """When each value is made and read, as positions of the schedule."""

    made: dict[int, list[int]]
    read: dict[int, list[int]]

    @staticmethod
    def of(program: Program, fused: Sequence[Fusion], steps: Sequence[int]) -> _Needed:
        made: dict[int, list[int]] = {}
        read: dict[int, list[int]] = {}
        for position, step in enumerate(steps):
            for value in fused[step].reads:
                read.setdefault(value, []).append(position)
            for value in fused[step].writes:
                made.setdefault(value, []).append(position)
        for atom in program.results:
            if isinstance(atom, int):
                read.setdefault(atom, []).append(len(steps))
        return _Needed(made, read)

    def holds(self, value: int, position: int) -> bool:
        made, read = self.made.get(value, []), self.read.get(value, [])
        later = bisect_right(read, position - 1)
        again = bisect_right(made, position - 1)
        return later < len(read) and (again == len(made) or read[later] <= made[again])


@dataclass
class _Emission:
    """State of the emission while the step's function is traced.

    ``values``: the latest copy of each value. ``done``: fusions that ran. ``anchor``: the value that the next
    tie waits for, of the fusion with the longest chain before it (``deepest``). ``fresh``: values that
    already wait for the current ``tie``. ``recent``: results of matrix products since the last tie. ``dear``:
    by an expensive equation's outputs, the phase in which it ran last. ``scattered``: results of scatters,
    which XLA computes in place.
    """

    values: dict[int, Any]
    emitted: Emitted
    needed: _Needed
    depths: Sequence[int]
    convolved: bool
    cpu: OnCpu | None
    done: set[int] = field(default_factory=set)
    fresh: set[int] = field(default_factory=set)
    recent: list[int] = field(default_factory=list)
    dear: dict[tuple[int, ...], Phase] = field(default_factory=dict)
    scattered: set[int] = field(default_factory=set)
    anchor: Any = None
    deepest: int = -1
    tie: Tie | None = None

    def step(self, position: int, index: int, fusion: Fusion) -> None:
        again = index in self.done
        self.done.add(index)
        if not again or self.emitted.ties is WaitPolicy.ALL:
            self.fresh, self.tie = set(), None
        tied = self._is_tied(again, fusion)
        if tied and self.tie is None and self.anchor is not None:
            self.tie = Tie(self._anchors(position))
        tie = self.tie if tied else None
        if tie is not None and self.emitted.barriers:
            self._pass(fusion, [value for value in fusion.reads if again or value not in self.scattered], tie)
        made = self._run(index, fusion, again, None if self.emitted.barriers else tie)
        self.values.update((value, made[value]) for value in fusion.writes)
        if again:
            self.fresh.update(fusion.writes)
        if not again or self.emitted.ties is WaitPolicy.ALL:
            self._remember(index, fusion, [value for value in fusion.writes if can_anchor(made[value])])

    def _remember(self, index: int, fusion: Fusion, written: Sequence[int]) -> None:
        # With selects, the next tie waits for the value written last. With barriers it waits for the value
        # with the longest chain before it: the last step may be the update of an early weight, which XLA may
        # run at any time.
        if fusion.root.name.startswith("scatter") and self.emitted.barriers:
            self.scattered.update(written)
        elif written:
            self.recent += written if any(each.name in PRODUCTS for each in fusion.equations) else ()
            if not self.emitted.barriers or self.depths[index] >= self.deepest:
                self.anchor, self.deepest = self.values[written[-1]], self.depths[index]

    def _is_tied(self, again: bool, fusion: Fusion) -> bool:
        # XLA:GPU would merge an expensive equation with the same one of the forward pass, and hold the
        # result.
        phase = phase_of(fusion.root.stack)
        dear = dict.fromkeys((each.outputs for each in fusion.equations if each.name in DEAR), phase)
        late = any(self.dear.get(outputs, phase) is not phase for outputs in dear)
        self.dear.update(dear)
        return self.emitted.ties.holds(again=again or (late and self.emitted.barriers))

    def _anchors(self, position: int) -> list[Any]:
        # With barriers, a tie also waits for all matrix products since the last tie that are still needed:
        # otherwise XLA would postpone a weight's gradient and hold its inputs until then. Other values are no
        # anchors, because an anchor must be written to memory and so is fused less.
        recent, self.recent = self.recent, []
        if not self.emitted.barriers:
            return [self.anchor]
        return [self.anchor, *(self.values[value] for value in recent if self.needed.holds(value, position))]

    def _pass(self, fusion: Fusion, waiting: Sequence[int], tie: Tie) -> None:
        late = [value for value in waiting if value not in self.fresh]
        mixed = self.emitted.waiting is Waiting.MIXED
        selected = [value for value in late if mixed and _is_cheap(self.values[value], value, fusion)]
        self.values.update((value, tie.selected(self.values[value])) for value in selected)
        others = [value for value in late if value not in selected]
        if others:
            self.values.update(zip(others, tie.behind([self.values[each] for each in others]), strict=True))
        self.fresh.update(late)

    def _run(self, index: int, fusion: Fusion, again: bool, tie: Tie | None) -> dict[int, Any]:
        made = {} if again or self.cpu is None else self.cpu.operands(index, self.values)
        found = self._equations(fusion, made, tie)
        if self.cpu is not None:
            self.cpu.keep(index, found)
        return found

    def _equations(self, fusion: Fusion, made: dict[int, Any], tie: Tie | None) -> dict[int, Any]:
        late = set(self.fresh) | self._waiting_anyway(fusion)
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
            made.update(zip(each.outputs, self._made_by(each, inputs), strict=True))
        return made

    def _waiting_anyway(self, fusion: Fusion) -> set[int]:
        # If all steps wait, a cheap step that reads the value it would wait for needs no tie. In a fused
        # chain of cheap steps, each tie would read the first element of the step before, and XLA would
        # compute all those first elements again for each element of the result. Products keep their tie,
        # since schedules of an MLP-Mixer held more without, and so do all steps of a program with
        # convolutions: a ResNet within 45 % needed 18 % more computation without ties, and 3 % with them.
        product = any(each.name in PRODUCTS for each in fusion.equations)
        if product or self.convolved or self.emitted.ties is not WaitPolicy.ALL or self.anchor is None:
            return set()
        return {value for value in fusion.reads if self.values.get(value) is self.anchor}

    def _made_by(self, each: Equation, inputs: list[Any]) -> list[Any]:
        made = None if self.cpu is None else self.cpu.made_by(each, inputs)
        if made is not None:
            return made
        if self.emitted.barriers and each.name == "select_and_scatter_add":
            slope, operand = inputs
            return [scattered_late(slope, operand, each.source.params)]
        return each.run(inputs)


def _depths(fused: Sequence[Fusion]) -> list[int]:
    """Return, per kernel, the length of the longest chain of kernels before it."""
    of_value: dict[int, int] = {}
    found = []
    for fusion in fused:
        found.append(1 + max((of_value[value] for value in fusion.reads if value in of_value), default=-1))
        of_value.update((value, found[-1]) for value in fusion.writes)
    return found


def _is_cheap(value: Any, number: int, fusion: Fusion) -> bool:
    # A select copies nothing if all its readers fuse it, and little if the value is small (a random key).
    copied = any(
        number in each.reads and each.name not in FUSIBLE and each.name not in REDUCTIONS
        for each in fusion.equations
    )
    return can_anchor(value) and (not copied or aval_bytes(value) <= _KEY_BYTES)


def _tie_one(each: Equation, inputs: list[Any], tie: Tie) -> None:
    candidates = [atom for atom in each.source.invars if not isinstance(atom, Literal)]
    if not candidates:
        return
    least = min(candidates, key=lambda atom: aval_bytes(atom.aval))
    places = [place for place, atom in enumerate(each.source.invars) if atom is least]
    tied = tie.selected(inputs[places[0]])
    for place in places:
        inputs[place] = tied
