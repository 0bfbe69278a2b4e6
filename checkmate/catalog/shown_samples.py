"""What the start page shows of the bundled graphs.

``python -m resources.make_samples`` computes it; reading it needs neither the graphs nor numpy.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from checkmate.catalog.bundled import resource

_TABLE = ("tables", "samples.json")
_LISTS = ("plain_bytes", "kept_bytes", "steps")


@dataclass(frozen=True)
class ShownSample:
    """A bundled graph: what it shows, and two of its memory curves.

    ``graph`` is its name, as commands accept it; ``shows`` says in a sentence or two what is to be seen.
    ``plain_bytes`` are the live bytes of each step that keeps everything; ``kept_bytes`` those of a schedule
    within ``share`` of that peak, whose cost is ``extra_cost`` more than computing everything once (a
    fraction). ``proved``: no schedule within that memory costs less. ``cost_origin``: how costs are known.
    """

    graph: str
    title: str
    shows: str
    share: float
    batch_size: int
    ops: int
    cost_origin: str
    extra_cost: float
    proved: bool
    plain_bytes: tuple[int, ...]
    kept_bytes: tuple[int, ...]
    steps: tuple[int, ...]


def shown_samples() -> tuple[ShownSample, ...]:
    """Return the bundled graphs in the order of the start page."""
    rows: list[dict[str, Any]] = json.loads(resource(*_TABLE).read_text(encoding="utf-8"))["samples"]
    return tuple(ShownSample(**{**row, **{name: tuple(row[name]) for name in _LISTS}}) for row in rows)
