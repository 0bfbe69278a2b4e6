"""Ask ``nvidia-smi`` about NVIDIA cards; asking takes no card."""

from __future__ import annotations

import re
import shutil
import subprocess

from checkmate.doctor.facts.values import Card, Nvidia

_ASK_S = 20.0  # waking up many cards takes seconds each
_FIELDS = "name,memory.total,memory.free,driver_version,compute_cap,compute_mode"
_CUDA = re.compile(r"CUDA (?:UMD )?Version\s*:\s*([\d.]+)")


def nvidia_here() -> Nvidia:
    """Return the cards that ``nvidia-smi`` lists, or why it lists none."""
    if shutil.which("nvidia-smi") is None:
        return Nvidia(installed=False)
    listed, problem = _ask(f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits")
    if problem:
        return Nvidia(installed=True, problem=problem)
    shown, _ = _ask()
    cuda = _CUDA.search(shown)
    return Nvidia(installed=True, cards=cards_of(listed), cuda=cuda[1] if cuda else "")


def cards_of(listed: str) -> tuple[Card, ...]:
    """Return the cards in ``nvidia-smi``'s table without units.

    The table gives memory in MiB.
    """
    found = []
    for line in listed.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) != len(_FIELDS.split(",")):
            continue
        name, total, free, driver, capability, mode = parts
        found.append(Card(name, _mebibytes(total), _mebibytes(free), driver, capability, "Exclusive" in mode))
    return tuple(found)


def _mebibytes(text: str) -> int:
    return int(text) * 2**20 if text.isdigit() else 0


def _ask(*arguments: str) -> tuple[str, str]:
    """Return what nvidia-smi printed, and its first error sentence.

    One of the two is empty.
    """
    try:
        done = subprocess.run(["nvidia-smi", *arguments], capture_output=True, text=True, timeout=_ASK_S)
    except subprocess.TimeoutExpired:
        return "", f"no answer within {_ASK_S:.0f} s"
    except OSError as error:
        return "", str(error)
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()
        return "", said[0].strip() if said else f"exit code {done.returncode}"
    return done.stdout, ""
