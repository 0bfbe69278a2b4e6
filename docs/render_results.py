"""Write the page of measured results from the files in ``docs/results``.

Each result is two files: ``NAME.json``, as a command wrote it (``checkmate bench ... -o NAME.json``), and
``NAME.md``, which says in words how it was measured. ``python docs/render_results.py`` writes
``docs/pages/benchmarks/results.md``. With ``--check`` it only says whether the page is up to date (exit
code 1: it is not). Charts are left out: ``checkmate report`` draws them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from page_file import write_or_check

from checkmate.reports.page.parts import Note, Section, Table
from checkmate.reports.recognize import gather

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parent / "pages" / "benchmarks" / "results.md"

_HEAD = """\
# Results

<!-- Written by docs/render_results.py from docs/results. Change those files, not this page. -->

Each table is rendered from a file that a command of this program wrote, and names its machine, versions and
load, here or in its words. `checkmate report docs/results -o report.html` shows the same files with their
charts. Older tables, whose files are gone, are under [earlier measurements](earlier.md).
"""


def page(results: Path = RESULTS) -> str:
    """Return the page as Markdown.

    Raises:
        FormatError: a file is no result, or is damaged. FileNotFoundError: a result has no words beside it.
    """
    parts = [_HEAD]
    for path in sorted(results.glob("*.json")):
        parts.append(path.with_suffix(".md").read_text(encoding="utf-8").strip() + "\n")
        for section in gather([path]).sections:
            parts += _section(section, f"docs/results/{path.name}")
    return "\n".join(parts)


def _section(section: Section, source: str) -> Iterator[str]:
    for figure, meaning in section.cards:
        yield f"- **{_cell(figure)}** {_cell(meaning)}"
    yield f"\n*{_cell('; '.join(section.facts))}. From `{source}`.*\n"
    if section.made_on:
        yield f"*Measured on {_cell(section.made_on)}.*\n"
    for block in section.blocks:
        if isinstance(block, Table):
            yield _table(block)
        elif isinstance(block, Note):
            yield from (f"{_cell(line)}\n" for line in block.lines)


def _table(table: Table) -> str:
    columns = range(len(table.columns))
    lines = [
        "| " + " | ".join(map(_cell, table.columns)) + " |",
        "|" + "|".join("---" if i in table.words else "---:" for i in columns) + "|",
        *("| " + " | ".join(map(_cell, row)) + " |" for row in table.rows),
    ]
    return "\n".join([f"**{_cell(table.title)}**\n", *lines, ""])


def _cell(text: str) -> str:
    return text.strip().replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page(), "docs/render_results.py"))
