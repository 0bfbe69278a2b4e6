"""The file of rows that a measurement writes as it goes, and goes on from when it was interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable, Set
from pathlib import Path
from typing import Any

from checkmate.errors import FormatError
from checkmate.formats.files import write_json

Row = dict[str, Any]
Save = Callable[[list[Row]], None]


def saving(path: Path, facts: Callable[[list[Row]], dict[str, Any]]) -> Save:
    """Writes the whole file anew with the rows given; ``facts``: all that it holds, from the rows."""

    def save(rows: list[Row]) -> None:
        write_json(path, facts(rows))

    return save


def read_rows(path: Path, kind: str, what: str, *, fields: Set[str] = frozenset()) -> list[Row]:
    """The rows of an earlier run; none where there is no file. ``kind``: its format; ``what``: in words; ``fields``: of every row.

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
        raise FormatError(f"{path} is not {what} to go on from", hint="choose another file") from error
    return rows
