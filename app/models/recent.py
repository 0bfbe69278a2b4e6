"""What was explored lately, with all that was found: it opens again at once, without TensorFlow."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from checkmate.ir.graph import Graph

_MOST = 6
ENDING = ".exploration.json.gz"


@dataclass(frozen=True)
class Explored:
    """An exploration that was closed. ``closed_at``: seconds since the epoch."""

    path: Path
    name: str
    closed_at: float


class Recent:
    """The explorations kept in ``folder``, one of each name, the oldest dropped."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, saved: Path, name: str) -> None:
        """Move the file ``saved`` here; where that cannot be done it is dropped, as nobody waits for it.

        An older one of that name goes.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            saved.replace(self._folder / f"{quote(name, safe=' ,=()+')}{ENDING}")
            for old in self.entries()[_MOST:]:
                old.path.unlink(missing_ok=True)
        except OSError:
            saved.unlink(missing_ok=True)

    def entries(self) -> list[Explored]:
        """The newest first."""
        found = []
        for path in self._folder.glob(f"*{ENDING}"):
            with contextlib.suppress(OSError):  # another window may have dropped it just now
                found.append(Explored(path, unquote(path.name.removesuffix(ENDING)), path.stat().st_mtime))
        return sorted(found, key=lambda entry: -entry.closed_at)


def name_of(graph: Graph) -> str:
    """What tells it from others in a list."""
    return f"{graph.name}, batch {graph.batch_size}" if graph.batch_size else graph.name
