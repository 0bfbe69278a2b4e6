"""Save a measurement's rows while it runs, and read them to resume."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from checkmate.bench.common.machine import Machine
from checkmate.errors import FormatError
from checkmate.formats.files import write_json
from checkmate.solvers.problem import SolveOptions

Row = dict[str, Any]
Save = Callable[[list[Row]], None]


def file_of_rows(
    kind: str,
    machine: Machine,
    options: SolveOptions,
    rows: Sequence[Mapping[str, Any]],
    summary: Mapping[str, Any],
) -> dict[str, Any]:
    """Return all that was measured as one JSON object. ``kind``: the file's format."""
    return {
        "format": kind,
        "version": 1,
        "machine": machine.to_json(),
        "options": {"time_limit_s": options.time_limit_s, "seed": options.seed},
        "rows": list(rows),
        "summary": dict(summary),
    }


def saving(path: Path, facts: Callable[[list[Row]], dict[str, Any]]) -> Save:
    """Return a function that writes the whole file from all rows.

    ``facts`` makes the file's content from the rows.
    """

    def save(rows: list[Row]) -> None:
        write_json(path, facts(rows))

    return save


def read_rows(path: Path, kind: str, what: str, *, fields: Set[str] = frozenset()) -> list[Row]:
    """Return the rows of an earlier run; empty where there is no file.

    ``kind``: the file's format. ``what``: the same in words. ``fields``: must be in every row.

    Raises:
        FormatError: the file holds something else.
    """
    if not path.exists():
        return []
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        rows = list(found["rows"])
        if found["format"] != kind or not all(fields <= row.keys() for row in rows):
            raise KeyError(kind)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(
            f"{path} is not {what} that can be continued", hint="choose another file"
        ) from error
    return rows
