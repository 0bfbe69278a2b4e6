"""What to send along when something went wrong, as text; no Qt."""

from __future__ import annotations

import contextlib
import platform
from pathlib import Path

from checkmate import __version__
from checkmate.ir.graph import Graph
from checkmate.machine.supported import versions

_LIBRARIES = ("PySide6-Essentials", "tensorflow", "keras", "numpy", "highspy", "numba")
_LINES = 40  # of the log


def problem_report(sentence: str, hint: str, graph: Graph | None, log: Path | None) -> str:
    """Return the text of a problem report.

    It has the problem, what was explored, the versions, and the end of the log.
    """
    lines = [
        sentence,
        *([hint] if hint else []),
        "",
        f"Checkmate Explorer {__version__}",
        platform.platform(),
    ]
    libraries = ", ".join(f"{name} {version}" for name, version in versions(_LIBRARIES).items())
    lines.append(f"Python {platform.python_version()}, {libraries}")
    if graph is not None:
        lines.append(f"graph: {graph.name}, {graph.n} ops, fingerprint {graph.fingerprint}")
    if log is not None:
        with contextlib.suppress(OSError):
            lines += [
                "",
                f"end of {log}:",
                *log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LINES:],
            ]
    return "\n".join(lines) + "\n"
