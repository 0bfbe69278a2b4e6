"""Define the values that hold the facts about this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
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
