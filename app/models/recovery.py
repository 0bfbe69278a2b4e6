"""Save what is explored, restore it after a crash, and keep what was explored lately."""

from __future__ import annotations

import contextlib
import hashlib
import re
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

import platformdirs
from PySide6.QtCore import QLockFile, QObject, QSettings, Signal

from app.models.exploration import Exploration
from app.workers.background import Background, later, on
from checkmate.errors import CheckmateError
from checkmate.formats.exploration import SavedExploration, read_exploration, write_exploration
from checkmate.ir import Graph

_QUIET_MS, _LAST_S = 2000, 5.0
_LOCK = ".lock"
_MOST_TRIES = (
    2  # restores without being asked: a window that dies of what it restored must not do so for ever
)
_MOST = 100  # explorations that are kept
_DIGITS = 16
_IDENTIFIED = re.compile(rf"[0-9a-f]{{{_DIGITS}}}\.")
ENDING = ".exploration.json.gz"
_RECORDS = "recent/records"


def sessions_folder() -> Path:
    return Path(platformdirs.user_state_dir("checkmate-explorer")) / "sessions"


@dataclass(frozen=True)
class Orphan:
    """The exploration of a window that did not close, restored ``tries`` times before."""

    path: Path
    saved_at: float
    tries: int

    @property
    def words(self) -> str:
        return _when(self.saved_at)

    @property
    def restores_itself(self) -> bool:
        return self.tries < _MOST_TRIES


def _when(seconds: float) -> str:
    at = time.localtime(seconds)
    today = at[:3] == time.localtime()[:3]
    return time.strftime("%H:%M", at) if today else time.strftime("%d %B, %H:%M", at).lstrip("0")


class Recovery(QObject):
    """Saves the exploration two seconds after a change, in a thread.

    The file is moved to the recent ones when the window closes, and stays if the window dies. A lock beside
    it says whose it is; the system releases it when the process ends, however it ends.

    Signals: ``saved(time of day)``; ``failed(sentence)``, once.
    """

    saved = Signal(str)
    failed = Signal(str)

    def __init__(
        self,
        exploration: Exploration,
        folder: Path,
        parent: QObject | None = None,
        *,
        recent: Recent | None = None,
    ) -> None:
        super().__init__(parent)
        self._recent, self._in_file = recent, ""  # under what the file is kept later
        self._exploration, self._folder = exploration, folder
        self.path: Path | None = None
        self._lock: QLockFile | None = None
        self._tries = 0
        self._writer = Background(self)
        self._writer.done.connect(lambda _: self.saved.emit(time.strftime("%H:%M")))
        self._writer.failed.connect(self._complain)
        self._complained = False
        self._quiet = later(self, _QUIET_MS, self._save)
        on(
            self._on_change,
            exploration.graph_changed,
            exploration.known_changed,
            exploration.budget_changed,
            exploration.constraints_changed,
            exploration.passing_changed,
            exploration.measured_changed,
            exploration.step_changed,
            exploration.listing.changed,
        )
        exploration.leaving.connect(self._leave)

    def orphans(self) -> list[Orphan]:
        found = []
        for path in self._folder.glob(f"*{ENDING}"):
            lock = _lock_of(path)
            if path == self.path or not lock.tryLock(0):
                continue  # an open window holds the lock
            lock.unlock()
            tries = path.name.removesuffix(ENDING).rpartition("-")[2]
            found.append(Orphan(path, path.stat().st_mtime, int(tries) if tries.isdigit() else 0))
        return sorted(found, key=lambda orphan: -orphan.saved_at)

    def adopt(self, orphan: Orphan) -> None:
        """Save to the file of a window that did not close, from now on."""
        self._tries = orphan.tries + 1
        name = orphan.path.with_name(_named(orphan.path, self._tries))
        orphan.path.rename(name)
        _lock_file(orphan.path).unlink(missing_ok=True)
        self._begin(name)

    def close(self) -> None:
        self._leave()
        if self.path is not None:
            self.path.unlink(missing_ok=True)
        if self._lock is not None:
            self._lock.unlock()
        self.path = self._lock = None

    def _leave(self) -> None:
        """Keep what is explored with the recent ones, the last changes too."""
        self._writer.close(_LAST_S)
        if self._quiet.isActive():
            self._quiet.stop()
            self._save()
            self._writer.close(_LAST_S)
        name, self._in_file = self._in_file, ""
        if name and self._recent is not None and self.path is not None and self.path.is_file():
            self._recent.keep(self.path, name)

    def _begin(self, path: Path) -> None:
        if self._lock is not None:
            self._lock.unlock()
        self.path, self._lock = path, _lock_of(path)
        self._lock.tryLock(0)

    def _on_change(self) -> None:
        # Not restarted by every change: while a solve streams, something is saved every two seconds.
        if self._exploration.graph is not None and not self._quiet.isActive():
            self._quiet.start()

    def _save(self) -> None:
        if self._writer.busy:
            self._quiet.start()
            return
        try:
            if self.path is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._begin(self._folder / _named(None, self._tries))
        except OSError as error:
            self._complain(f"what you explore cannot be saved in {self._folder}: {error.strerror or error}")
            return
        assert self.path is not None
        # Taken now: another graph may be explored by the time that the thread writes.
        path, saved, body = self.path, self._exploration.saved(), self._exploration.graph_body
        # Estimates that measured costs will replace are not worth keeping, nor are scaled graphs.
        passing = self._exploration.passing or saved.graph.origin.extrapolated_from_batch > 0
        self._in_file = "" if passing else kept_as(saved.graph)
        self._writer.start(lambda: write_exploration(path, saved, body))

    def _complain(self, sentence: str, _hint: str = "") -> None:
        if not self._complained:
            self._complained = True
            self.failed.emit(sentence)


def _named(old: Path | None, tries: int) -> str:
    stem = f"{time.time_ns():x}" if old is None else old.name.removesuffix(ENDING).rpartition("-")[0]
    return f"{stem}-{tries}{ENDING}"


def _lock_file(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(ENDING) + _LOCK)


def _lock_of(path: Path) -> QLockFile:
    lock = QLockFile(str(_lock_file(path)))
    lock.setStaleLockTime(0)  # whatever its age: only its process counts
    return lock


@dataclass(frozen=True)
class Explored:
    """An exploration that was closed. ``closed_at``: seconds since the epoch."""

    path: Path
    name: str
    closed_at: float

    @property
    def words(self) -> str:
        return _when(self.closed_at)


class Recent:
    """The explorations kept in ``folder``: the newest of each graph, and not too many."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, saved: Path, name: str) -> None:
        """Move the file ``saved`` here, or drop it if that fails. ``name``: by ``kept_as``."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            saved.replace(self._folder / f"{name}{ENDING}")
            for old in self.entries()[_MOST:]:
                old.path.unlink(missing_ok=True)
        except OSError:
            saved.unlink(missing_ok=True)

    def entries(self) -> list[Explored]:
        found = []
        for path in self._folder.glob(f"*{ENDING}"):
            with contextlib.suppress(OSError):  # another window may have removed it just now
                found.append(Explored(path, known_as(path), path.stat().st_mtime))
        return sorted(found, key=lambda entry: -entry.closed_at)

    def of(self, graph: Graph) -> SavedExploration | None:
        """Return the kept exploration of this graph; None if there is none."""
        for path in self._folder.glob(f"{identity(graph)}.*{ENDING}"):
            with contextlib.suppress(CheckmateError):
                return read_exploration(path).of(graph)
        return None


class RecentRecords:
    """The logs and profiles that were read lately, and stay where they are; none without settings."""

    def __init__(self, settings: QSettings | None) -> None:
        self._settings = settings

    def keep(self, path: Path) -> None:
        if self._settings is not None:
            own = str(path.absolute())
            others = [str(one) for one in self.paths() if str(one) != own]
            self._settings.setValue(_RECORDS, [own, *others][:_MOST])

    def paths(self) -> list[Path]:
        kept = None if self._settings is None else self._settings.value(_RECORDS)
        listed = [kept] if isinstance(kept, str) else kept if isinstance(kept, list) else []
        paths = [Path(entry) for entry in listed if isinstance(entry, str) and entry]
        return [path for path in paths if path.exists()]


def identity(graph: Graph) -> str:
    """Return a digest of what the graph computes and its names. Costs may be others each time."""
    digest = hashlib.sha256(graph.fingerprint.encode())
    for name in (graph.name, *(op.name for op in graph.ops)):
        digest.update(b"\0" + name.encode())
    return digest.hexdigest()[:_DIGITS]


def known_as(path: Path) -> str:
    """What the user calls the file of an exploration, also one that ``kept_as`` named."""
    return unquote(_IDENTIFIED.sub("", path.name.removesuffix(ENDING), count=1))


def kept_as(graph: Graph) -> str:
    """Return the name of the file that the exploration of ``graph`` is kept in."""
    name = f"{graph.name}, batch {graph.batch_size}" if graph.batch_size else graph.name
    return f"{identity(graph)}.{quote(name, safe=' ,=()+')}"
