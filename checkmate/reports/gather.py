"""Recognise files as results by their content, and write them as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from checkmate.errors import CheckmateError, FormatError, SchemaVersionError, UsageError
from checkmate.formats.files import read_json, require_writable, write_bytes
from checkmate.formats.moccasin import looks_like_node_link
from checkmate.ir.shown import Shown
from checkmate.progress import Cancelled, Progress, Report, never, silent, stop_if
from checkmate.reports import batches, curves, steps
from checkmate.reports.grouping import GRAPH, REPORT, SCHEDULE, Loaded, together
from checkmate.reports.html import Section, sections_page
from checkmate.units import plural

TITLE = "Results of Checkmate Explorer"
_START = b"<!DOCTYPE html>"
VERSION = 1
Maker = Callable[[Path, Any], list[Section]]

# By the file's ``format``: its name for people, and the function that makes its sections.
KINDS: dict[str, tuple[str, Maker]] = {
    "checkmate-frontier": ("frontier -o curve.json", curves.frontier),
    "checkmate-frontiers": ("frontier --json, of several graphs", curves.frontiers),
    "checkmate-max-batch": ("max-batch --json", batches.sections),
    "checkmate-jax-export": ("export.json of a step of JAX", steps.jax_export),
    "checkmate-exploration": ("an exploration saved from the window", curves.exploration),
}
RUN = (REPORT, SCHEDULE, GRAPH)  # what run, export, solve and profile write
ACCEPTED = ", ".join(
    [*(name for name, _ in KINDS.values()), "a run's or an export's folder", "a schedule beside its graph"]
)
_ENDINGS = (".json", ".json.gz")


class NotAResult(FormatError):  # noqa: N818 - the name says what is wrong
    pass


@dataclass(frozen=True, repr=False)
class Gathered(Shown):
    """``left_out``: files of folders that are no results, a sentence each."""

    sections: tuple[Section, ...]
    left_out: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Gathered({plural(len(self.sections), 'section')}, {len(self.left_out)} left out)"


def gather(paths: Sequence[Path], *, report: Report = silent, cancelled: Cancelled = never) -> Gathered:
    """Return the sections of every file, and of every result in every folder.

    Raises:
        FormatError: a file given by name is no result, a result is damaged, or a folder holds none.
    """
    loaded: list[Loaded] = []
    left_out: list[str] = []
    files = list(_files(paths))
    for place, (path, named) in enumerate(files):
        stop_if(cancelled)
        report(Progress("report", place, len(files), f"reading {path.name}"))
        try:
            loaded.append(load(path))
        except NotAResult as error:
            if named:
                raise
            left_out.append(str(error))
    sections: list[Section] = []
    for place, group in enumerate(together(loaded)):
        stop_if(cancelled)
        report(Progress("report", place, len(loaded), f"{group[0].path.name}"))
        sections += _sections(group)
    if not sections:
        raise FormatError(f"there is no result in {', '.join(map(str, paths))}", hint=f"accepted: {ACCEPTED}")
    return Gathered(tuple(sections), tuple(left_out))


def _files(paths: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    """Yield (file, given by name itself), each once. A folder stands for its own files and those of the runs
    in it.
    """
    seen: set[Path] = set()
    for given in paths:
        inside = [given]
        if given.is_dir():
            runs = [
                child
                for child in sorted(given.iterdir())
                if child.is_dir() and (child / "report.json").is_file()
            ]
            inside = [file for folder in (given, *runs) for file in sorted(folder.iterdir()) if _may_be(file)]
        for path in inside:
            if path.resolve() not in seen:
                seen.add(path.resolve())
                yield path, path == given


def _may_be(path: Path) -> bool:
    return path.is_file() and path.name.endswith(_ENDINGS) and not path.name.startswith(".")


def load(path: Path) -> Loaded:
    """Raise NotAResult where no command writes such a file, FormatError where it is damaged."""
    data = read_json(path)
    kind = data.get("format") if isinstance(data, dict) else None
    if looks_like_node_link(data):
        kind = GRAPH
    if not isinstance(kind, str) or kind not in (*KINDS, *RUN):
        said = "has no field format" if kind is None else f"says its format is {str(kind)[:40]!r}"
        raise NotAResult(f"{path} is not a result: it {said}", hint=f"accepted: {ACCEPTED}")
    version = data.get("version", VERSION)
    if isinstance(version, int) and version > VERSION:
        raise SchemaVersionError(
            f"{path}: version {version} of {kind} is newer than this program reads ({VERSION})",
            hint="update checkmate",
        )
    return Loaded(path, kind, data)


def _sections(group: Sequence[Loaded]) -> list[Section]:
    path, kind = group[0].path, group[0].kind
    try:
        made = steps.run(group) if kind in RUN else KINDS[kind][1](path, group[0].data)
    except KeyError as error:
        raise FormatError(
            f"{path}: the field {str(error)[:60]} is missing", hint="write the file again"
        ) from error
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:100]
        raise FormatError(f"{path} is not a valid {kind}: {reason}", hint="write the file again") from error
    except FormatError:
        raise
    except CheckmateError as error:  # an unknown network, or a schedule of another graph
        raise FormatError(f"{path}: {error}", hint=error.hint) from error
    sources = tuple(f"{entry.path.name} of {_day(entry.path)}" for entry in group)
    return [replace(section, sources=sources) for section in made]


def _day(path: Path) -> str:
    return f"{datetime.fromtimestamp(path.stat().st_mtime):%Y-%m-%d %H:%M}"


def write_page(
    results: Sequence[Path],
    output: Path,
    *,
    title: str = TITLE,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> Gathered:
    """Write the page ``output`` with a section for each of ``results``.

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
    """Refuse to write over another file than a page: a slip would lose a result."""
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
