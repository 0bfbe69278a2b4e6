"""Read the documentation's pages: code blocks, links and pictures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted((DOCS / "pages").rglob("*.md"))
TEXTS = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_RUN = re.compile(r"<!-- run(?:: (?P<prints>.*))? -->\n$")


@dataclass(frozen=True)
class Block:
    """A block of code. ``runs``: it is marked as runnable. ``prints``: texts that its output has."""

    page: Path
    line: int
    language: str
    code: str
    runs: bool
    prints: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [block for block in _blocks(page, text) if block.language == language]


def _blocks(page: Path, text: str) -> Iterator[Block]:
    for match in _FENCE.finditer(text):
        said = _RUN.search(text, 0, match.start())
        wanted = (said and said["prints"]) or ""
        prints = tuple(part.strip() for part in wanted.split(";") if part.strip())
        line = text.count("\n", 0, match.start()) + 1
        yield Block(page, line, match[1], match[2], said is not None, prints)


def prose(page: Path) -> str:
    return _FENCE.sub("", page.read_text(encoding="utf-8"))
