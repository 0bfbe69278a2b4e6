"""Define a page's parts: sections of tables, pictures and sentences.

All texts are plain and are escaped when drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Table:
    """Hold a table's cells as text.

    ``words``: the columns aligned left. All others are numbers, aligned right.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: frozenset[int] = frozenset({0})

    @classmethod
    def of(
        cls, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, words: Sequence[int] = (0,)
    ) -> Table:
        """Make a table from any sequences. A cell of another type becomes text."""
        return cls(title, tuple(columns), tuple(tuple(map(str, row)) for row in rows), frozenset(words))


@dataclass(frozen=True)
class Picture:
    """Hold a chart as the text of an SVG file, and what it shows."""

    svg: str
    caption: str = ""


@dataclass(frozen=True)
class Note:
    """Hold sentences, one paragraph each."""

    lines: tuple[str, ...]


Block = Table | Picture | Note


@dataclass(frozen=True)
class Section:
    """Hold one result.

    ``facts``: a short description, under the title. ``cards``: (figure, meaning), the figures that matter
    most. ``sources``: the files it is from and when they were written.
    """

    title: str
    facts: tuple[str, ...] = ()
    cards: tuple[tuple[str, str], ...] = ()
    blocks: tuple[Block, ...] = field(default=())
    sources: tuple[str, ...] = ()
