"""Hold the doctor's lines, each with a state and a remedy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

FORMAT, VERSION = "checkmate-doctor", 1


class PartState(Enum):
    """``OK``: works. ``LIMITED``: works with less. ``MISSING``: does not work."""

    OK = "ok"
    LIMITED = "limited"
    MISSING = "missing"


@dataclass(frozen=True)
class Line:
    """The state of one part.

    ``name`` is for programs, the same on every machine. ``mend``: what to do, a command where there is one.
    ``needed``: the main job cannot run while this part is missing.
    """

    name: str
    title: str
    state: PartState
    text: str
    mend: str = ""
    needed: bool = False

    @property
    def blocks(self) -> bool:
        return self.needed and self.state is PartState.MISSING

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "state": self.state.value}


@dataclass(frozen=True)
class Part:
    """A part of the machine or a library; makes its line in one of the three states."""

    name: str
    title: str
    needed: bool = False

    def ok(self, text: str) -> Line:
        return Line(self.name, self.title, PartState.OK, text, needed=self.needed)

    def limited(self, text: str, mend: str) -> Line:
        return Line(self.name, self.title, PartState.LIMITED, text, mend, self.needed)

    def missing(self, text: str, mend: str) -> Line:
        return Line(self.name, self.title, PartState.MISSING, text, mend, self.needed)


@dataclass(frozen=True)
class Diagnosis:
    """All lines in reading order, the ``seconds`` that looking took, and the facts."""

    lines: tuple[Line, ...]
    seconds: float
    facts: dict[str, Any]

    @property
    def ok(self) -> bool:
        """Return whether the main job can run: to profile, solve, measure and export."""
        return not any(line.blocks for line in self.lines)

    @property
    def verdict(self) -> str:
        job = "profile, solve, measure and export"
        blocking = [line.title for line in self.lines if line.blocks]
        if blocking:
            return f"The main job ({job}) cannot run here yet: see {', '.join(blocking)}."
        less = sum(line.state is not PartState.OK for line in self.lines)
        rest = f" {less} line{'s' * (less != 1)} could be better." if less else ""
        return f"The main job ({job}) can run here.{rest}"

    def text(self) -> str:
        """Return the lines as plain text, to paste anywhere."""
        found = []
        for line in self.lines:
            found.append(f"{line.state.value:8}{line.title:13}{line.text}")
            if line.mend:
                found.append(f"{'':21}→ {line.mend}")
        return "\n".join([*found, "", self.verdict]) + "\n"

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "ok": self.ok,
            "verdict": self.verdict,
            "lines": [line.to_json() for line in self.lines],
            "seconds": round(self.seconds, 2),
            "facts": self.facts,
        }
