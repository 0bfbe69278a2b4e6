"""Write result files as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from checkmate.errors import FormatError, UsageError
from checkmate.formats.files import require_writable, write_bytes
from checkmate.progress import Cancelled, Report, never, silent, stop_if
from checkmate.reports.page.html import sections_page
from checkmate.reports.recognize import Gathered, gather

TITLE = "Results of Checkmate Explorer"
_START = b"<!DOCTYPE html>"


def write_page(
    results: Sequence[Path],
    output: Path,
    *,
    title: str = TITLE,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> Gathered:
    """Write the page ``output``; return what is on it.

    It has a section for each of ``results``.

    Raises:
        FormatError: a file given by name is no result, or the page cannot be written. UsageError: ``output``
        is there and is no page. CancelledError: the user cancelled; nothing was written.
    """
    require_writable(output)
    _require_page(output)
    found = gather(results, report=report, cancelled=cancelled)
    stop_if(cancelled)
    page = sections_page(title, found.sections, datetime.now(), left_out=found.left_out)
    write_bytes(output, page.encode("utf-8"))
    return found


def _require_page(path: Path) -> None:
    """Refuse to write over another file than a page.

    A slip would lose a result.

    Raises:
        UsageError: the file is there and is something else. FormatError: it cannot be read.
    """
    if not path.exists():
        return
    try:
        with path.open("rb") as file:
            begun = file.read(len(_START))
    except OSError as error:
        raise FormatError(
            f"cannot read {path}: {error.strerror or error}", hint="name another file"
        ) from error
    if begun and begun.lower() != _START.lower():
        raise UsageError(
            f"{path} exists and is not a page of results", hint="name another file, like report.html"
        )
