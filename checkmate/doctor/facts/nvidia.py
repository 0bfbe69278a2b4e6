"""Ask ``nvidia-smi`` about NVIDIA cards; asking takes no card."""

from __future__ import annotations

import re
import shutil

from checkmate.doctor.facts.values import ListedCard, Nvidia
from checkmate.machine import nvidia_smi

_ASK_S = 20.0  # waking up many cards takes seconds each
_FIELDS = ("name", "memory.total", "memory.free", "driver_version", "compute_cap", "compute_mode")
_CUDA = re.compile(r"CUDA (?:UMD )?Version\s*:\s*([\d.]+)")


def nvidia_here() -> Nvidia:
    """Return the cards that ``nvidia-smi`` lists, or why it lists none."""
    if shutil.which("nvidia-smi") is None:
        return Nvidia(installed=False)
    listed, problem = nvidia_smi.query(_FIELDS, limit_s=_ASK_S)
    if problem:
        return Nvidia(installed=True, problem=problem)
    shown, _ = nvidia_smi.ask(limit_s=_ASK_S)
    cuda = _CUDA.search(shown)
    return Nvidia(installed=True, cards=cards_of(listed), cuda=cuda[1] if cuda else "")


def cards_of(listed: str) -> tuple[ListedCard, ...]:
    """Return the cards in ``nvidia-smi``'s table without units. The table gives memory in MiB."""
    return tuple(
        ListedCard(
            row["name"],
            nvidia_smi.memory_bytes(row["memory.total"]) or 0,
            nvidia_smi.memory_bytes(row["memory.free"]) or 0,
            row["driver_version"],
            row["compute_cap"],
            "Exclusive" in row["compute_mode"],
        )
        for row in nvidia_smi.rows(listed, _FIELDS)
    )
