"""A file of results, read and recognised."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPORT, SCHEDULE, GRAPH = "checkmate-report", "checkmate-schedule", "checkmate-graph"


@dataclass(frozen=True)
class Loaded:
    """``kind``: the file's ``format``; ``data``: its JSON, of a file of JSON lines the first."""

    path: Path
    kind: str
    data: Any
