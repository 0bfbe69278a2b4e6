"""Which equations XLA will fuse: they are one op of the graph.

A value inside a fusion gets no buffer. XLA decides for itself; this is a guess that comes near, and what it
gets wrong is corrected by what the compiled step takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkmate.backends.jax.pooling import compared_bytes
from checkmate.backends.jax.primitives import FUSIBLE, PRODUCTS, REDUCTIONS, VIEWS
from checkmate.backends.jax.program import Equation, Program

_BROADCAST = 8  # what is so many times larger than its operand is made where it is read


@dataclass(frozen=True, eq=False)
class Fusion:
    """Equations that are emitted together.

    ``inline`` are equations that cost nothing (broadcasts, reshapes, constants): each fusion has its own.
    ``reads`` and ``writes`` are the values at its border. ``overwrites``: pairs of them (written, read); the
    one may be written over the other, which is as large. ``workspace``: bytes that it needs beside them and
    its loops.
    """

    equations: tuple[Equation, ...]
    inline: frozenset[int]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    overwrites: tuple[tuple[int, int], ...] = ()
    workspace: int = 0

    @property
    def root(self) -> Equation:
        return self.equations[-1]


def fusions(program: Program) -> tuple[Fusion, ...]:
    """Return the program's equations, grouped, in a valid order."""
    results = {atom for atom in program.results if isinstance(atom, int)}
    maker = makers(program)
    free = free_equations(program, results, maker)
    group = _groups(program, results, free, maker)
    return _built(program, results, free, group, maker)


def makers(program: Program) -> dict[int, int]:
    """Return which equation makes each value."""
    return {value: index for index, each in enumerate(program.equations) for value in each.outputs}


def free_equations(program: Program, results: set[int], maker: dict[int, int]) -> set[int]:
    """Return the equations that are made again wherever they are read."""
    free: set[int] = set()
    for index, each in enumerate(program.equations):
        if each.has_effects or results.intersection(each.outputs) or len(each.outputs) != 1:
            continue
        constant = each.name in FUSIBLE and all(maker.get(value, -1) in free for value in each.reads)
        constant = constant and all(not _depends(program, maker, value) for value in each.reads)
        made = program.bytes_of(each.outputs[0])
        wide = each.name == "broadcast_in_dim" and _read_bytes(program, each) * _BROADCAST <= made
        if constant or wide or each.name in VIEWS:
            free.add(index)
    return free


def _depends(program: Program, maker: dict[int, int], value: int) -> bool:
    """Return whether a free value depends on more than constants."""
    waiting = [value]
    while waiting:
        index = maker.get(waiting.pop())
        if index is None:
            return True
        waiting.extend(program.equations[index].reads)
    return False


def _read_bytes(program: Program, equation: Equation) -> int:
    return sum(program.bytes_of(value) for value in equation.reads)


def _groups(program: Program, results: set[int], free: set[int], maker: dict[int, int]) -> list[int]:
    """Return the group of each equation, named by its last equation."""
    readers = readers_of(program, free)
    group = list(range(len(program.equations)))
    for index in reversed(range(len(program.equations))):
        each = program.equations[index]
        if index in free or each.has_effects or results.intersection(each.outputs):
            continue
        found = {group[reader] for value in each.outputs for reader in readers.get(value, ())}
        if len(found) == 1 and _joins(each, program.equations[found.pop()]):
            group[index] = group[next(iter(readers[each.outputs[0]]))]
    return group


def _joins(each: Equation, root: Equation) -> bool:
    """Return whether XLA would put ``each`` into the fusion that reads it."""
    if root.has_effects:
        return False
    if each.name in PRODUCTS:
        return root.name == "transpose"
    if each.name not in FUSIBLE:
        return False
    if root.name in PRODUCTS:
        return each.name == "transpose"
    return root.name in FUSIBLE or root.name in REDUCTIONS


def readers_of(program: Program, free: set[int]) -> dict[int, set[int]]:
    """Return who reads each value, through free equations."""
    readers: dict[int, set[int]] = {}
    for index in reversed(range(len(program.equations))):
        each = program.equations[index]
        if index in free:
            through = readers.get(each.outputs[0], set())
        else:
            through = {index}
        for value in each.reads:
            readers.setdefault(value, set()).update(through)
    return readers


def _built(
    program: Program, results: set[int], free: set[int], group: list[int], maker: dict[int, int]
) -> tuple[Fusion, ...]:
    members: dict[int, list[int]] = {}
    for index in range(len(program.equations)):
        if index not in free:
            members.setdefault(group[index], []).append(index)
    drawn = [with_free(program, free, maker, indices) for _, indices in sorted(members.items())]
    border = [border_reads(program, indices) for indices in drawn]
    read = {value for reads in border for value in reads} | results
    found = []
    for indices, reads in zip(drawn, border, strict=True):
        own = [program.equations[index] for index in indices]
        writes = tuple(
            value
            for index in indices
            if index not in free
            for value in program.equations[index].outputs
            if value in read
        )
        inline = frozenset(position for position, index in enumerate(indices) if index in free)
        found.append(Fusion(tuple(own), inline, reads, writes, workspace=_workspace(own)))
    return tuple(found)


def _workspace(equations: Sequence[Equation]) -> int:
    slopes = [each.source for each in equations if each.name == "select_and_scatter_add"]
    needed = [compared_bytes(each.params, *(atom.aval for atom in each.invars)) for each in slopes]
    return max(needed, default=0)


def with_free(program: Program, free: set[int], maker: dict[int, int], indices: Sequence[int]) -> list[int]:
    """Return a group's equations with the free ones that they need."""
    found, waiting = set(indices), list(indices)
    while waiting:
        for value in program.equations[waiting.pop()].reads:
            index = maker.get(value, -1)
            if index in free and index not in found:
                found.add(index)
                waiting.append(index)
    return sorted(found)


def border_reads(program: Program, indices: Sequence[int]) -> tuple[int, ...]:
    """Return the values that equations read and do not make."""
    made = {value for index in indices for value in program.equations[index].outputs}
    read = dict.fromkeys(value for index in indices for value in program.equations[index].reads)
    return tuple(value for value in read if value not in made)
