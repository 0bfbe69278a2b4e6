"""What a page is made of: sections of tables, pictures and sentences; plain text everywhere, escaped where it is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Table:
    """Cells as text. ``words``: the columns that are read, to the left; all others are numbers, to the right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: frozenset[int] = frozenset({0})

    @classmethod
    def of(
        cls, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, words: Sequence[int] = (0,)
    ) -> Table:
        """From any sequences; a cell that a file has as something else becomes text."""
        return cls(title, tuple(columns), tuple(tuple(map(str, row)) for row in rows), frozenset(words))


@dataclass(frozen=True)
class Picture:
    """A chart as the text of an SVG file, and what it shows."""

    svg: str
    caption: str = ""


@dataclass(frozen=True)
class Note:
    """Sentences, one paragraph each."""

    lines: tuple[str, ...]


Block = Table | Picture | Note


@dataclass(frozen=True)
class Section:
    """One result. ``facts``: in short, under the title; ``cards``: (figure, what it is), the figures that matter most.

    ``sources``: the files it is from and when they were written; ``made_on``: the machine and the versions, where the file says so.
    """

    title: str
    facts: tuple[str, ...] = ()
    cards: tuple[tuple[str, str], ...] = ()
    blocks: tuple[Block, ...] = field(default=())
    made_on: str = ""
    sources: tuple[str, ...] = ()
