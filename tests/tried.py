"""Write down what was tried to break the program, and what broke."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from checkmate.machine.supported import versions
from tests.benchmarks.measured_on import this_machine


@dataclass(frozen=True)
class Tried:
    """``broke``: how many attempts found a fault. ``held``: the test that holds it, where there is one."""

    what: str
    tried: int
    broke: int
    held: str = ""


@dataclass(frozen=True)
class Record:
    command: str
    machine: dict[str, Any]

    @staticmethod
    def begin(command: str) -> Record:
        return Record(command, this_machine())

    def write(self, path: Path, rows: Iterable[Tried], notes: Iterable[str] = (), **more: Any) -> None:
        """``more`` are fields that no table shows."""
        facts = {
            "format": "checkmate-tried",
            "version": 1,
            "command": self.command,
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
            "machine": self.machine,
            "made_with": versions(("numpy", "numba", "highspy")),
            "rows": [vars(row) for row in rows],
            "notes": list(notes),
            **more,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
