"""Write the page of the house's figures from what was measured.

``docs/measure_house.py`` counts them at two commits and times the tests, then ``python docs/render_house.py``
writes ``docs/pages/benchmarks/house.md``. With ``--check`` it only says whether the page is up to date.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from page_file import write_or_check

RESULTS = Path(__file__).parent / "results" / "house"
PAGE = Path(__file__).parent / "pages" / "benchmarks" / "house.md"
_HEAD = """\
# The code itself

<!-- Written by docs/render_house.py from docs/results/house. Change that, not this page. -->

In November 2026 every module moved into the folder of its command or stage, and every sentence was written
again in plain English ([Architecture](../architecture.md)). This is what can be counted of it: at the commit
before the move, and later. The program has grown meanwhile.
"""
_ROWS = (
    ("files", "files of the program (`checkmate/`, `app/`)"),
    ("lines", "their lines"),
    ("test_files", "files of tests"),
    ("test_lines", "their lines"),
    ("folders", "folders with modules"),
    ("folders_over_12", "folders with more than 12 modules"),
    ("layers", "packages and modules with a rule what they may import"),
    ("circles", "groups of modules that need each other when they are imported"),
    ("file_names_more_than_once", "file names that occur more than once"),
    ("class_names_more_than_once", "class names that occur more than once"),
    ("functions", "functions"),
    ("functions_over_45", "functions of more than 45 lines, docstring aside"),
    ("largest_file_lines", "lines of the longest file"),
    ("lines_over_110", "lines of more than 110 characters in the program"),
    ("test_lines_over_110", "lines of more than 110 characters in tests"),
    ("pairs_of_files_that_share_six_lines", "pairs of files that share six lines in a row"),
    ("readme_lines", "lines of the README"),
    ("coverage_floor", "least coverage that the unit tests must have, %"),
)
_FOOT = """\
A folder's name is part of a file's name now (`chain/solver.py` was `chain_solver.py`), so short names recur.
Before, one test held the rules of imports for some rooms; the table covers every module.

A pair of files counts if six lines in a row are equal; indentation, comments, imports, empty lines and lines
of punctuation aside.

To measure again: `python docs/measure_house.py HEAD -o docs/results/house/after.json`; for the seconds,
`python docs/measure_house.py --run .ci/quick -o docs/results/house/seconds.json` and the same with `pytest`
and `.ci/run`; then `python docs/render_house.py`. The counts are from `docs/results/house/before.json` and
`docs/results/house/after.json`.
"""


def page(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Return the page as Markdown."""
    parts = [_HEAD, *_figures(before, after), "", *_folders(before, after)]
    parts += [
        *_words(before, after),
        "",
        *_seconds(_read("seconds.json")),
        *_commands(_read("commands.json")),
    ]
    parts += [*_tasks(_read("newcomer.json")), _FOOT]
    return "\n".join(parts)


def _figures(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    yield f"| | `{before['commit']}`, {before['day']} | `{after['commit']}`, {after['day']} |"
    yield "|---|---:|---:|"
    for key, words in _ROWS:
        yield f"| {words} | {_number(before[key])} | {_number(after[key])} |"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:,}"


def _folders(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    for said, found in (("before", before), ("later", after)):
        names = (f"`{name}` {count}" for name, count in found["largest_folders"].items())
        yield f"The folders with the most modules, {said}: {', '.join(names)}."
        yield ""


def _words(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    yield "## First words of docstrings\n"
    yield "The most frequent first words of the docstrings of functions, in percent of all.\n"
    yield "| before | % | later | % |"
    yield "|---|---:|---|---:|"
    for (one, of_one), (other, of_other) in zip(_shares(before), _shares(after), strict=True):
        yield f"| {one} | {of_one:.1f} | {other} | {of_other:.1f} |"


def _shares(found: dict[str, Any]) -> list[tuple[str, float]]:
    words = dict(found["docstrings_by_first_word"])
    everything = words.pop("all")
    return [(word, 100 * count / everything) for word, count in words.items()]


def _seconds(found: dict[str, Any]) -> Iterator[str]:
    if not found:
        return
    yield "## Seconds until a contributor knows\n"
    yield "| command | commit | seconds | processor seconds | cores | load before and after |"
    yield "|---|---|---:|---:|---:|---|"
    for command, facts in found.items():
        load = f"{facts['load_before']:g}, {facts['load_after']:g}"
        figures = f"{facts['seconds']:,} | {facts['processor_seconds']:,} | {facts['cores']}"
        yield f"| `{command}` | `{facts['commit']}` | {figures} | {load} |"
    yield "\nOn a machine that works for others too the processor's seconds say more than the clock's. From"
    yield "`docs/results/house/seconds.json`.\n"


def _commands(found: dict[str, Any]) -> Iterator[str]:
    yield "## Commands, before and later\n"
    yield f"The same calls at `{found['before']}` and at `{found['after']}`, compared on {found['day']}.\n"
    yield "| what | how many |"
    yield "|---|---:|"
    for words, count in found["counts"]:
        yield f"| {words} | {count} |"
    yield "\nWhat is not the same, but for words and additions:\n"
    yield from (f"- {sentence}" for sentence in found["differences"])
    yield "\n| command | seconds before | seconds later |"
    yield "|---|---:|---:|"
    for words, before, later in found["seconds"]:
        yield f"| {words} | {before:.2f} | {later:.2f} |"
    yield f"\n{found['seconds_note']} From `docs/results/house/commands.json`.\n"


def _tasks(found: dict[str, Any]) -> Iterator[str]:
    yield "## Five tasks from the documentation alone\n"
    yield f"Done on {found['day']} at `{found['commit']}` by {found['by']}.\n"
    yield "| task | minutes | files opened | pages among them | wrong turns |"
    yield "|---|---:|---:|---:|---|"
    for task, minutes, files, pages, turns in found["tasks"]:
        yield f"| {task} | {minutes} | {files} | {pages} | {turns} |"
    yield f"\n{found['mended']} From `docs/results/house/newcomer.json`.\n"


def _read(name: str) -> dict[str, Any]:
    path = RESULTS / name
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


if __name__ == "__main__":
    text = page(_read("before.json"), _read("after.json"))
    sys.exit(write_or_check(PAGE, text, "docs/render_house.py"))
