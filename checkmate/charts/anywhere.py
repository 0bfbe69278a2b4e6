"""A chart that reads on a light and on a dark background, whichever it comes to stand on."""

from __future__ import annotations

import re

from checkmate.charts.frontier import COLORS
from checkmate.charts.svg_chart import ACCENT, DARK, GRAY, GRID, PALE, PANEL, SOFT, WINDOW

# What had the page's colour is left out, and what had the text's takes that of the text around the picture.
_OTHERS = {WINDOW: ("none", 1.0), PANEL: ("none", 1.0), GRID: ("currentColor", 0.15)}
_OTHERS |= {PALE: ("currentColor", 0.2), "#f6f7f9": ("currentColor", 0.06)}
_OTHERS |= {DARK: ("currentColor", 1.0), GRAY: ("currentColor", 0.75)}
MIDDLE = dict(zip(
    (ACCENT, *COLORS),
    ("#4c7df0", "#d0641a", "#1a8f6d", "#c063a0", "#2482bf", "#967718", "#9270d8", "#d9534a", "#5a8f8f"),
    strict=True,
))  # fmt: skip
_OTHERS |= {color: (middle, 1.0) for color, middle in MIDDLE.items()} | {SOFT: (MIDDLE[ACCENT], 0.22)}
_COLOR = re.compile(r'\b(fill|stroke)="(#[0-9a-f]{6})"')


def on_any_background(svg: str) -> str:
    def other(found: re.Match[str]) -> str:
        attribute, (color, opacity) = found[1], _OTHERS[found[2]]
        return f'{attribute}="{color}"' + (f' {attribute}-opacity="{opacity:g}"' if opacity < 1 else "")

    return _COLOR.sub(other, svg)
