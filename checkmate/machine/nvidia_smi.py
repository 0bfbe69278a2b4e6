"""Run ``nvidia-smi`` and read its table; asking takes no card."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

_PROGRAM = "nvidia-smi"


def ask(*arguments: str, limit_s: float) -> tuple[str, str]:
    """Return what nvidia-smi prints, and why it fails. One of the two is empty."""
    try:
        done = subprocess.run([_PROGRAM, *arguments], capture_output=True, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return "", f"no answer within {limit_s:.0f} s"
    except OSError as error:
        return "", str(error)
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()
        return "", said[0].strip() if said else f"exit code {done.returncode}"
    return done.stdout, ""


def query(fields: Sequence[str], *, limit_s: float) -> tuple[str, str]:
    """Return the table of ``fields``, a line per GPU, and why it fails.

    The table has commas, no titles and no units; memory is in MiB.
    """
    return ask(f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits", limit_s=limit_s)


def rows(table: str, fields: Sequence[str]) -> list[dict[str, str]]:
    """Return the lines of a queried table by field; other lines are skipped."""
    found = []
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == len(fields):
            found.append(dict(zip(fields, cells, strict=True)))
    return found


def memory_bytes(cell: str) -> int | None:
    """Return a memory cell in bytes; None where the driver does not report it."""
    return int(cell) * 2**20 if cell.isdigit() else None
