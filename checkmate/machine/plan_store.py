"""Plans of training steps, one small file each, in the user's cache folder.

A file is written whole or not at all, so several trainings can share the folder. Nothing here may stop a
training: ``problem`` says what could not be used.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checkmate.errors import FormatError
from checkmate.fields import FieldError, hints_of, read_fields, write_fields
from checkmate.formats.files import Fields, read_json, write_json

FORMAT, VERSION = "checkmate-plan", 1
MOST_PLANS = 400
_LEFT_S = 3600  # a hidden file of this age is not being written any more
MOST_BYTES = 32 * 2**20  # a plan of 500 steps takes 3 kB, one of 20,000 steps 120 kB


@dataclass(frozen=True)
class KeptTrial:
    """A tried way to run a step, and its measurement.

    ``steps``: op indices in the order of execution; None: the plain step. ``peak_bytes``: the most that the
    allocator held; ``least_bytes``: the lowest peak of a run; ``held_bytes``: the part of both that other
    allocations held. ``source``: how the peak is known. ``constant_bytes``: what the step's function keeps
    between runs. ``seconds``: of a run; ``op_seconds``: of its ops; 0: not known. ``in_turn``: its ops ran
    one after another.
    """

    steps: tuple[int, ...] | None
    peak_bytes: int
    least_bytes: int
    held_bytes: int
    source: str
    constant_bytes: int = 0
    seconds: float = 0.0
    op_seconds: float = 0.0
    in_turn: bool = False


@dataclass(frozen=True)
class KeptPlan:
    """The plan of one step as it was found; fields that are not named here are as in ``KeptTrial``.

    ``steps``: None if the step trains plainly; the defaults describe a step without a plan. ``limit_bytes``:
    the budget; ``limit_words``: what it is a share of, if it was not given in bytes. ``over_bytes``: by how
    much the peak exceeds it. ``rate``: allocated bytes per requested byte; 0: not known. ``sentence``: as
    told to the user. ``date``: ISO, UTC. ``measured``: the peak was measured, else predicted. ``tried``: all
    measurements of the step. ``seconds``, ``scratch``: per op, seconds and scratch bytes, if known.
    ``rooms``: the bytes for the step alone for which a search was completed. ``made_with``: versions, device
    and settings. ``as_written``: the plain step with the user's own recomputation, if it was measured.
    """

    steps: tuple[int, ...] | None
    peak_bytes: int = 0
    held_bytes: int = 0
    limit_bytes: int = 0
    limit_words: str = ""
    over_bytes: int = 0
    rate: float = 0.0
    sentence: str = ""
    date: str = ""
    measured: bool = True
    tried: tuple[KeptTrial, ...] = ()
    seconds: tuple[float, ...] = ()
    scratch: tuple[int, ...] = ()
    rooms: tuple[int, ...] = ()
    made_with: Mapping[str, str] = field(default_factory=dict)
    in_turn: bool = False
    as_written: KeptTrial | None = None


class PlanStore:
    """At most ``most`` files of ``most_bytes`` in all; the longest unused go first. ``problem``: a sentence,
    or empty.
    """

    def __init__(self, folder: Path, *, most: int = MOST_PLANS, most_bytes: int = MOST_BYTES) -> None:
        self.folder = folder
        self.problem = ""
        self._most, self._most_bytes = most, most_bytes

    def look_up(self, key: str) -> KeptPlan | None:
        path = self._path(key)
        try:
            if not path.exists():
                return None
            found = _plan(path, key)
            with suppress(OSError):  # a folder that is only read has no order to keep
                os.utime(path)  # it was used now
        except FormatError as error:
            if path.exists():  # else another process has removed it
                self.problem = f"a kept plan is damaged and not used: {error}"
            return None
        except OSError as error:
            self.problem = f"kept plans cannot be used: {self.folder}: {error.strerror or error}"
            return None
        return found

    def made_otherwise(self, key: str, digits: int) -> KeptPlan | None:
        """Return the last readable plan of another key that begins with the same ``digits``."""
        found: list[tuple[float, Path]] = []
        with suppress(OSError):
            for path in self.folder.glob(f"{key[:digits]}*.json"):
                if path != self._path(key):
                    found.append((path.stat().st_mtime, path))
        for _, path in sorted(found, reverse=True):
            with suppress(FormatError):
                return _plan(path)
        return None

    def keep(self, key: str, plan: KeptPlan) -> bool:
        """Store ``plan`` for ``key`` in place of another; return whether that succeeded."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            data = {
                "format": FORMAT,
                "version": VERSION,
                "key": key,
                **write_fields(hints_of(KeptPlan), plan),
            }
            write_json(self._path(key), {**data, "digest": _digest(data)})
            self._remove_oldest(self._path(key))
        except FormatError as error:
            self.problem = f"the plan is not kept for a later run: {error}"
            return False
        except OSError as error:
            self.problem = f"the plan is not kept for a later run: {self.folder}: {error.strerror or error}"
            return False
        return True

    def remove(self, key: str) -> None:
        try:
            self._path(key).unlink(missing_ok=True)
        except OSError as error:
            self.problem = f"a kept plan cannot be removed: {self.folder}: {error.strerror or error}"

    def _path(self, key: str) -> Path:
        return self.folder / f"{key[:40]}.json"

    def _remove_oldest(self, new: Path) -> None:
        """Remove plans over the limits and unfinished files; ``new`` stays, even if the clock is wrong."""
        found: list[tuple[float, int, Path]] = []
        for path in self.folder.iterdir():
            try:
                facts = path.stat()
            except OSError:
                continue  # another process removed it
            if path.name.startswith(".") and facts.st_mtime > time.time() - _LEFT_S:
                continue  # another process is writing it
            found.append((math.inf if path == new else facts.st_mtime, facts.st_size, path))
        total = 0
        for number, (_, size, path) in enumerate(sorted(found, reverse=True)):
            total += size
            if number and (number >= self._most or total > self._most_bytes):
                path.unlink(missing_ok=True)


def _plan(path: Path, key: str | None = None) -> KeptPlan:
    """Read a plan; that of ``key``, if it is given. The digest says that this program wrote all of it.

    Raises:
        FormatError: the file is damaged, or is not the plan of ``key``.
    """
    fields = Fields(path, read_json(path))
    data = dict(fields.data)
    if data.pop("digest", None) != _digest(data):
        raise FormatError(f"{path}: it was changed after it was written")
    found = [data.pop(name, None) for name in ("format", "version", "key")]
    if found != [FORMAT, VERSION, found[2] if key is None else key]:
        raise FormatError(f"{path}: it is not the plan of this step")
    try:
        return KeptPlan(**read_fields(hints_of(KeptPlan), data))
    except FieldError as error:
        raise FormatError(f"{path}: {error}") from error


def _digest(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
