"""Fill the marked regions of a page that is written by hand.

A region begins with ``<!-- figures: NAME -->`` and ends with ``<!-- end of figures -->``. What stands between
them is made from the result NAME in ``docs/results``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

_REGION = re.compile(r"(?<=<!-- figures: )([\w./-]+)( -->\n)(.*?)(?=<!-- end of figures -->)", re.DOTALL)


def filled(page: str, render: Callable[[str], str]) -> str:
    """Return the page with every region made anew by ``render(NAME)``."""
    return _REGION.sub(lambda found: f"{found[1]}{found[2]}\n{render(found[1])}\n", page)


def outside(page: str) -> str:
    """Return the page without what stands in its regions."""
    return _REGION.sub(lambda found: found[1] + found[2], page)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as Markdown, with columns of figures to the right."""
    listed = [list(row) for row in rows]
    numeric = [
        place > 0 and any(row[place][:1].isdigit() for row in listed)
        and all(re.match(r"^[*+≥–-]*[\d–]|^$", row[place]) for row in listed)
        for place in range(len(columns))
    ]  # fmt: skip
    lines = ["| " + " | ".join(columns) + " |", "|" + "|".join("---:" if n else "---" for n in numeric) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in listed)]) + "\n"
