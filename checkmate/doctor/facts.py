"""Define the values that hold the facts about this machine."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

_SIGNALS = {
    "SIGILL": "illegal instruction",
    "SIGSEGV": "segmentation fault",
    "SIGABRT": "abort",
    "SIGBUS": "bus error",
    "SIGKILL": "killed, often because memory ran out",
}


@dataclass(frozen=True)
class Probe:
    """Hold what one child process found, and how it ended.

    ``found``: the value of each stage that succeeded. ``errors``: the sentence of each that failed.
    ``stage``: the stage in which the child ended; empty where it reached its end. ``code``: its exit code, or
    minus the number of the signal that ended it; None where it was stopped at its time limit. ``log``: its
    standard error.
    """

    found: Mapping[str, Any] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    stage: str = ""
    code: int | None = 0
    log: str = ""
    seconds: float = 0.0

    @property
    def crashed(self) -> bool:
        return self.code != 0

    def why(self) -> str:
        """Return how the child ended, as the end of a sentence. Empty where it did not crash."""
        if self.code is None:
            return f"no answer within {self.seconds:.0f} s"
        if self.code >= 0:
            return f"exit code {self.code}" if self.code else ""
        try:
            name = signal.Signals(-self.code).name
        except ValueError:
            return f"signal {-self.code}"
        return f"{name}, {_SIGNALS[name]}" if name in _SIGNALS else name


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

    @property
    def missing(self) -> bool:
        return not self.installed


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
    """All facts. ``environment``: the variables that decide how the libraries run, where they are set."""

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

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
