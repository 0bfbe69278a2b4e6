from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from checkmate.processes.stages import Probe


@dataclass(frozen=True)
class Host:
    """The computer and its Python. ``avx``: whether the processor has AVX; None where that is not known."""

    python: str
    executable: str
    system: str
    processor: str
    avx: bool | None
    cores: int
    memory_bytes: int
    free_bytes: int


@dataclass(frozen=True)
class ListedCard:
    """One NVIDIA card as ``nvidia-smi`` lists it. ``exclusive``: it takes one process at a time."""

    name: str
    memory_bytes: int
    free_bytes: int
    driver: str
    capability: str
    exclusive: bool = False


@dataclass(frozen=True)
class Nvidia:
    """What ``nvidia-smi`` says. ``problem``: its error. ``cuda``: the newest CUDA that the driver can run."""

    installed: bool
    cards: tuple[ListedCard, ...] = ()
    cuda: str = ""
    problem: str = ""


@dataclass(frozen=True)
class Library:
    """A library that the program uses. ``wanted``: versions, as pip writes them."""

    name: str
    wanted: str
    installed: str
    fits: bool


@dataclass(frozen=True)
class Folder:
    """A folder that the program writes to. ``problem``: why it cannot. ``note``: more about its content."""

    name: str
    title: str
    path: str
    bytes: int
    free_bytes: int
    problem: str = ""
    note: str = ""


@dataclass(frozen=True)
class Facts:
    """``environment``: the variables that decide how the libraries run, where they are set."""

    host: Host
    version: str
    libraries: tuple[Library, ...]
    tensorflow: Probe
    without_gpu: Probe | None
    solvers: Probe
    window: Probe
    nvidia: Nvidia
    cuda_packages: tuple[Library, ...]
    folders: tuple[Folder, ...]
    environment: Mapping[str, str]


FORMAT, VERSION = "checkmate-doctor", 1


class PartState(Enum):
    """``OK``: works. ``LIMITED``: works with less. ``MISSING``: does not work."""

    OK = "ok"
    LIMITED = "limited"
    MISSING = "missing"


@dataclass(frozen=True)
class Line:
    """``mend``: what to do, a command where there is one. ``needed``: the main job cannot run while this part
    is missing.
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
    lines: tuple[Line, ...]
    seconds: float
    facts: dict[str, Any]

    @property
    def ok(self) -> bool:
        """Whether the main job can run: to profile, solve, measure and export."""
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

    def text(self, width: int = 1000) -> str:
        """``width``: of a line, in letters."""
        found = []
        for line in self.lines:
            head = f"{line.state.value:8}{line.title:13}"
            for begin, said in ((head, line.text), (f"{'':21}→ ", line.mend)):
                found += textwrap.wrap(said, width, initial_indent=begin, subsequent_indent=" " * len(begin))
        return "\n".join([*found, "", *textwrap.wrap(self.verdict, width)]) + "\n"

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
