"""Measured op costs in one SQLite file of the user's cache folder, shared by processes.

Nothing here may stop a profile: a damaged file is replaced, a file that cannot be used is left alone, and
``problem`` says so. A worse measurement never replaces a better one.
"""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path

import platformdirs

from checkmate.errors import one_line
from checkmate.machine.load import Reading

MOST_ENTRIES = 50_000  # about 15 MB
ENOUGH_RUNS = 3  # an op measured in fewer runs is measured again
ENOUGH_QUIET = 3  # after so many profiles on a quiet machine, the spread is the op's own
_PIECES = re.compile(r"(\d{1,9}(,\d{1,18})*)?")
_AT_ONCE = 500  # SQLite's limit of variables in one statement is 999 in old versions
_WAIT_S = 10.0  # for another process to finish its write
_DAMAGED = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


@dataclass(frozen=True)
class KnownCost:
    """The measured cost of one op.

    ``seconds`` is the median of the runs, ``spread`` their deviation over the median. ``workspace_bytes``:
    bytes that the op's kernels held beyond what the memory rules predict. ``slack``: allocated over requested
    bytes of the step in which the op was measured. ``date``: ISO, UTC. ``load``, ``cores`` and
    ``step_spread``: see ``Reading``. ``quiet``: for an op that stays doubtful, how many profiles measured it
    on a quiet machine. ``reserve_bytes``: the bytes of outputs whose shape does not give their size.
    ``pieces``: the requests of the workspace, as numbers with commas: which of the op's kernels asked, then
    bytes; empty if not known.
    """

    seconds: float
    spread: float
    runs: int
    workspace_bytes: int
    slack: float
    device: str
    version: str
    date: str
    load: float
    cores: int
    step_spread: float
    quiet: int
    reserve_bytes: int = 0
    pieces: str = ""

    @property
    def reading(self) -> Reading:
        return Reading(self.load, self.cores, self.step_spread)

    @property
    def is_complete(self) -> bool:
        return self.runs >= ENOUGH_RUNS

    @property
    def is_worth_another(self) -> bool:
        return self.is_complete and self.reading.is_doubtful and self.quiet < ENOUGH_QUIET

    def replaces(self, older: KnownCost) -> bool:
        return not older.is_complete or (self.is_complete and self.reading.replaces(older.reading))

    def after(self, older: KnownCost) -> KnownCost:
        better = self if self.replaces(older) else older
        return replace(better, quiet=older.quiet + self.quiet) if better.reading.is_doubtful else better

    def is_sound(self) -> bool:
        """A row for which this is false is ignored."""
        numbers = (self.seconds, self.spread, self.slack, self.load, self.step_spread)
        counts = (self.runs, self.workspace_bytes, self.cores, self.quiet, self.reserve_bytes)
        return (
            all(isinstance(number, float) and math.isfinite(number) and number >= 0 for number in numbers)
            and all(isinstance(number, int) and 0 <= number < 2**62 for number in counts)
            and self.cores > 0
            and all(isinstance(text, str) for text in (self.device, self.version, self.date, self.pieces))
            and _PIECES.fullmatch(self.pieces) is not None
        )


_COLUMNS = ", ".join(field.name for field in fields(KnownCost))
_TABLE = f"CREATE TABLE IF NOT EXISTS costs (key TEXT PRIMARY KEY, {_COLUMNS}) WITHOUT ROWID"
_Work = Callable[[sqlite3.Connection], None]
_PLACES = ", ".join("?" * (1 + len(fields(KnownCost))))


def user_cache(name: str) -> Path:
    return Path(platformdirs.user_cache_dir("checkmate-explorer")) / name


def default_path() -> Path:
    # A different layout of the table gets a different name.
    return user_cache("costs") / "costs-4.sqlite"


def plans_folder() -> Path:
    # Here, so that the doctor can ask without importing numpy.
    return user_cache("plans")


class CostStore:
    """At most ``most`` costs in a file; the first measured go first. ``problem``: a sentence where it cannot
    be used.
    """

    def __init__(self, path: Path, *, most: int = MOST_ENTRIES) -> None:
        self._path = self.path = path
        self._most = most
        self.problem = ""

    def look_up(self, keys: Iterable[str]) -> dict[str, KnownCost]:
        wanted = list(dict.fromkeys(keys))
        if not self._path.exists():
            return {}
        found: dict[str, KnownCost] = {}

        def read(connection: sqlite3.Connection) -> None:
            found.update(_rows(connection, wanted))

        return found if self._done(read) else {}

    def keep(self, costs: Mapping[str, KnownCost]) -> bool:
        """Keep each cost unless a better one is known for its key. Return whether any was kept."""
        sound = {key: entry for key, entry in costs.items() if entry.is_sound()}
        if not sound:
            return False
        kept: list[str] = []

        def write(connection: sqlite3.Connection) -> None:
            known = _rows(connection, list(sound))
            kept.extend(key for key, entry in sound.items() if key not in known or entry.replaces(known[key]))
            rows = [(key, *astuple(e.after(known[key]) if key in known else e)) for key, e in sound.items()]
            connection.executemany(f"INSERT OR REPLACE INTO costs VALUES ({_PLACES})", rows)
            (count,) = connection.execute("SELECT count(*) FROM costs").fetchone()
            if count > self._most:
                # A clock that was put back makes the new ones look the oldest; they are the last to go.
                oldest = connection.execute("SELECT key FROM costs ORDER BY date, key").fetchall()
                oldest.sort(key=lambda row: row[0] in sound)
                connection.executemany("DELETE FROM costs WHERE key = ?", oldest[: count - self._most])

        # A damaged file has been removed by now.
        done = self._done(write) or (not self._path.exists() and self._done(write))
        return done and bool(kept)

    def _done(self, work: _Work) -> bool:
        seen = _identity(self._path)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._path, timeout=_WAIT_S)) as connection, connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(_TABLE)
                work(connection)
        except sqlite3.DatabaseError as error:
            # Extended codes hold the plain one in their lowest byte.
            if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF in _DAMAGED:
                self._remove(seen)
                self.problem = one_line(f"the cost cache {self._path} was damaged ({error}); it is replaced")
            else:
                self.problem = one_line(f"the cost cache {self._path} cannot be used: {error}")
            return False
        except (OSError, UnicodeError) as error:
            self.problem = (
                f"the cost cache {self._path} cannot be used: {getattr(error, 'strerror', None) or error}"
            )
            return False
        return True

    def _remove(self, seen: int | None) -> None:
        """Remove the damaged file, unless another process has replaced it since it was ``seen``."""
        if seen is None or _identity(self._path) != seen:
            return
        for path in (self._path.with_name(self._path.name + "-journal"), self._path):
            try:
                path.unlink(missing_ok=True)
            except OSError:
                return  # it stays, and the next process reports it again


def _rows(connection: sqlite3.Connection, keys: Sequence[str]) -> dict[str, KnownCost]:
    found: dict[str, KnownCost] = {}
    for start in range(0, len(keys), _AT_ONCE):
        some = keys[start : start + _AT_ONCE]
        places = ", ".join("?" * len(some))
        for key, *row in connection.execute(
            f"SELECT key, {_COLUMNS} FROM costs WHERE key IN ({places})", some
        ):
            entry = KnownCost(*row)
            if entry.is_sound():
                found[key] = entry
    return found


def _identity(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None
