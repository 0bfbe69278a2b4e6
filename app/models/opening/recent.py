"""Keep what was explored lately, with all that was found.

It opens again at once, without TensorFlow.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from PySide6.QtCore import QSettings

from checkmate.ir.graph import Graph

_MOST = 6
ENDING = ".exploration.json.gz"
_RECORDS = "recent/records"


@dataclass(frozen=True)
class Explored:
    """An exploration that was closed. ``closed_at`` is in seconds since the epoch."""

    path: Path
    name: str
    closed_at: float


class Recent:
    """The explorations kept in ``folder``.

    There is one of each name. The oldest is dropped when there are too many.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, saved: Path, name: str) -> None:
        """Move the file ``saved`` here, or drop it if that fails.

        An older exploration of that name is removed.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            saved.replace(self._folder / f"{quote(name, safe=' ,=()+')}{ENDING}")
            for old in self.entries()[_MOST:]:
                old.path.unlink(missing_ok=True)
        except OSError:
            saved.unlink(missing_ok=True)

    def entries(self) -> list[Explored]:
        """Return the explorations, newest first."""
        found = []
        for path in self._folder.glob(f"*{ENDING}"):
            with contextlib.suppress(OSError):  # another window may have just dropped it
                found.append(Explored(path, unquote(path.name.removesuffix(ENDING)), path.stat().st_mtime))
        return sorted(found, key=lambda entry: -entry.closed_at)


class RecentRecords:
    """The logs and profiles that were read lately; they stay where they are.

    Without settings, none is remembered.
    """

    def __init__(self, settings: QSettings | None) -> None:
        self._settings = settings

    def keep(self, path: Path) -> None:
        """Remember ``path`` as the newest."""
        if self._settings is not None:
            own = str(path.absolute())
            others = [str(one) for one in self.paths() if str(one) != own]
            self._settings.setValue(_RECORDS, [own, *others][:_MOST])

    def paths(self) -> list[Path]:
        """Return those that are still there, newest first."""
        kept = None if self._settings is None else self._settings.value(_RECORDS)
        listed = [kept] if isinstance(kept, str) else kept if isinstance(kept, list) else []
        paths = [Path(entry) for entry in listed if isinstance(entry, str) and entry]
        return [path for path in paths if path.exists()]


def name_of(graph: Graph) -> str:
    """Return the name that tells it from others in a list."""
    return f"{graph.name}, batch {graph.batch_size}" if graph.batch_size else graph.name
