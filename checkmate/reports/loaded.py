"""Hold a file of results, read and recognised."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPORT, SCHEDULE, GRAPH = "checkmate-report", "checkmate-schedule", "checkmate-graph"


@dataclass(frozen=True)
class Loaded:
    """Hold one file's content.

    ``kind``: the file's ``format``. ``data``: its JSON; for JSON lines, the first line.
    """

    path: Path
    kind: str
    data: Any
