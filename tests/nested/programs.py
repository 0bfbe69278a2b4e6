"""Random programs: functions of tensors that are nested in functions, loops and branches.

A program is written as kind, number and parts, such as ``scan1(cond0(dense2, recompute0(act7)))``. Each part
maps rows of numbers to as many rows. The kinds
are in ``tests.nested.leaves`` and ``tests.nested.wraps``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from tests.nested.leaves import LEAVES
from tests.nested.wraps import WRAPS

DEPTH = 3
_TOKEN = re.compile(r"([a-z_]+)(\d+)|[(),]")
_NUMBERS = 60


@dataclass(frozen=True)
class Part:
    kind: str
    number: int
    parts: tuple[Part, ...] = ()

    def __str__(self) -> str:
        inside = f"({', '.join(map(str, self.parts))})" if self.parts else ""
        return f"{self.kind}{self.number}{inside}"


def parsed(text: str) -> Part:
    tokens = list(_TOKEN.finditer(text))[::-1]

    def part() -> Part:
        name = tokens.pop()
        inside: list[Part] = []
        if tokens and tokens[-1][0] == "(":
            while tokens.pop()[0] != ")":
                inside.append(part())
        return Part(name[1], int(name[2]), tuple(inside))

    return part()


def random_program(random: Random, depth: int = DEPTH) -> Part:
    """Return a program with a wrap outside and up to ``depth`` of them around each leaf."""
    if depth == 0 or (depth < DEPTH and random.random() < 0.3):
        return Part(random.choice(sorted(LEAVES)), random.randrange(_NUMBERS))
    kind = random.choice(sorted(WRAPS))
    inside = tuple(random_program(random, depth - 1) for _ in range(WRAPS[kind][0]))
    return Part(kind, random.randrange(_NUMBERS), inside)


def smaller(program: Part) -> Iterator[Part]:
    """Yield programs with less in them, the smallest first."""
    yield from program.parts
    for place, inside in enumerate(program.parts):
        for less in smaller(inside):
            yield Part(
                program.kind, program.number, (*program.parts[:place], less, *program.parts[place + 1 :])
            )
