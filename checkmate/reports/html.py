"""Self-contained pages in the common style, and the parts of a section.

Nothing is fetched, and there is no script but one that a page brings itself. Texts are escaped when drawn.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from checkmate import __version__


@dataclass(frozen=True)
class Table:
    """``words``: the columns aligned left; all others are numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: frozenset[int] = frozenset({0})

    @classmethod
    def of(
        cls, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, words: Sequence[int] = (0,)
    ) -> Table:
        return cls(title, tuple(columns), tuple(tuple(map(str, row)) for row in rows), frozenset(words))


@dataclass(frozen=True)
class Picture:
    svg: str
    caption: str = ""


@dataclass(frozen=True)
class Note:
    lines: tuple[str, ...]


Block = Table | Picture | Note


@dataclass(frozen=True)
class Section:
    """``cards``: (figure, meaning). ``sources``: the files it is from and when they were written."""

    title: str
    facts: tuple[str, ...] = ()
    cards: tuple[tuple[str, str], ...] = ()
    blocks: tuple[Block, ...] = field(default=())
    sources: tuple[str, ...] = ()


def page(title: str, body: str, *, style: str = "", script: str = "") -> str:
    """Return the whole page of an HTML ``body``; ``style`` comes after the common one.

    The page forbids browsers to fetch or send anything, and to run a script where it has none.
    """
    allowed = "script-src 'unsafe-inline'; " if script else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">\n'
        f'<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; {allowed}'
        "style-src 'unsafe-inline'; img-src data:\">\n"
        f"<title>{html.escape(title)}</title>\n<style>\n{_STYLE}{style}</style></head>\n"
        f"<body>\n{body}\n{script}</body></html>\n"
    )


def cards(found: Iterable[tuple[str, str]]) -> str:
    inside = "".join(f"<div><b>{html.escape(a)}</b><span>{html.escape(b)}</span></div>" for a, b in found)
    return f'<div class="cards">{inside}</div>' if inside else ""


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], words: Iterable[int] = (0,)) -> str:
    """Return a table, or nothing where there are no rows."""
    if not rows:
        return ""
    read = frozenset(words)

    def cells(tag: str, texts: Sequence[str]) -> str:
        kinds = ["" if place in read else ' class="n"' for place in range(len(texts))]
        return "".join(
            f"<{tag}{kind}>{html.escape(text)}</{tag}>" for kind, text in zip(kinds, texts, strict=True)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>\n" for row in rows)
    head = f"<thead><tr>{cells('th', columns)}</tr></thead>"
    return f'<div class="wide"><table>{head}\n<tbody>\n{body}</tbody></table></div>'


def sections_page(
    title: str, sections: Sequence[Section], when: datetime, *, left_out: Sequence[str] = ()
) -> str:
    parts = [
        f"<h1>{html.escape(title)}</h1>",
        _muted(f"Checkmate Explorer {__version__}, {when:%Y-%m-%d %H:%M}"),
    ]
    if len(sections) > 1:
        links = "".join(
            f'<li><a href="#s{place}">{html.escape(one.title)}</a></li>'
            for place, one in enumerate(sections, start=1)
        )
        parts.append(f"<nav><ol>{links}</ol></nav>")
    parts += [section(one, f"s{place}") for place, one in enumerate(sections, start=1)]
    if left_out:
        parts.append("<h2>Left out</h2>" + "".join(_muted(line) for line in left_out))
    return page(title, "\n".join(parts), style=_SECTIONS_STYLE)


def section(one: Section, anchor: str = "") -> str:
    told = [f"from {', '.join(one.sources)}"] if one.sources else []
    parts = [
        f'<section id="{anchor}">' if anchor else "<section>",
        f"<h2>{html.escape(one.title)}</h2>",
        _muted(" · ".join(one.facts)),
        cards(one.cards),
        *(_block(block) for block in one.blocks),
        _muted("; ".join(told)),
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _block(block: Block) -> str:
    match block:
        case Table():
            drawn = table(block.columns, block.rows, block.words)
            return f"<h3>{html.escape(block.title)}</h3>{drawn}" if drawn and block.title else drawn
        case Picture():
            below = f"<figcaption>{html.escape(block.caption)}</figcaption>" if block.caption else ""
            return f'<figure class="chart">{inline_svg(block.svg)}{below}</figure>'
        case Note():
            return "".join(_muted(line) for line in block.lines)


def _muted(text: str) -> str:
    return f'<p class="muted">{html.escape(text)}</p>' if text else ""


def inline_svg(svg: str) -> str:
    """Return an SVG file's text as an element of a page, without what a page implies."""
    return re.sub(r'\sxmlns="[^"]*"', "", re.sub(r"^\s*<\?xml[^>]*\?>\s*", "", svg), count=1).strip()


_STYLE = """:root { color-scheme: light dark; --text: #1a1d24; --muted: #5a6372; --page: #ffffff;
  --line: #d9dde5; --accent: #2f5bd8; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e8eaf0; --muted: #9aa3b2; --page: #1c1f26; --line: #343a46;
    --accent: #7aa2ff; } }
body { font: 14px/1.5 Inter, system-ui, sans-serif; color: var(--text); background: var(--page);
  max-width: 920px; margin: 32px auto; padding: 0 20px; font-variant-numeric: tabular-nums; }
h1 { font-size: 26px; margin: 0; } h2 { font-size: 16px; margin: 32px 0 8px; }
.muted, figcaption, th, .cards span { color: var(--muted); }
th { text-align: left; font-weight: 400; vertical-align: bottom; }
.n { text-align: right; }
.cards { display: flex; flex-wrap: wrap; gap: 12px; margin-top: 16px; }
.cards div { border: 1px solid var(--line); border-radius: 8px; padding: 10px 14px; flex: 1 1 150px; }
.cards b { display: block; font-size: 22px; font-weight: 600; } .cards span { font-size: 12px; }
svg { width: 100%; height: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
td, th { padding: 3px 10px 3px 0; border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
@media print { body { max-width: none; margin: 0; } svg, figure, tr, .cards { break-inside: avoid; }
  h1, h2, h3 { break-after: avoid; } thead { display: table-header-group; } }
"""

# The charts' colours are attributes, which every viewer understands; rules of a style sheet override them.
_DARK = {
    "#eef0f4": "#15171c",
    "#ffffff": "#1c1f26",
    "#e8ebf0": "#2a2f39",
    "#1a1d24": "#e8eaf0",
    "#5a6372": "#9aa3b2",
    "#2f5bd8": "#7aa2ff",
    "#e3eafc": "#24304d",
    "#d9dde5": "#343a46",
    "#f6f7f9": "#22262e",
    "#c75400": "#e8853d",
    "#007f5b": "#3dbd94",
    "#b5528c": "#d98ab8",
    "#0072b2": "#56b4e9",
    "#8a6d00": "#cfae3a",
    "#7a4fc0": "#a98be0",
    "#b3261e": "#f0726a",
    "#3d6b6b": "#7fb5b5",
}
_DARK_RULES = "".join(
    f'  .chart [{attribute}="{light}"] {{ {attribute}: {dark}; }}\n'
    for light, dark in _DARK.items()
    for attribute in ("fill", "stroke")
)
_SECTIONS_STYLE = f"""body {{ max-width: 1080px; }} h2 {{ font-size: 20px; margin: 40px 0 4px; }}
h3 {{ font-size: 15px; margin: 24px 0 6px; }}
section {{ border-top: 1px solid var(--line); margin-top: 32px; }} section > h2 {{ margin-top: 24px; }}
p {{ margin: 6px 0; }} nav ol {{ margin: 12px 0; padding-left: 22px; }} a {{ color: var(--accent); }}
figure {{ margin: 16px 0; }} .chart svg {{ border-radius: 8px; }} .wide {{ overflow-x: auto; }}
.wide td, .wide th {{ padding: 3px 8px; overflow-wrap: normal; }} .wide .n {{ white-space: nowrap; }}
.wide th.n {{ white-space: normal; }}
@media print {{ .wide {{ overflow: visible; }} }}
@media (prefers-color-scheme: dark) {{
{_DARK_RULES}}}
"""
