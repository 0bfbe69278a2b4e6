"""The memory of common graphics cards.

The table is in ``resources/tables/cards.json``. A card's memory is what its maker says. A part of it is never
there for a training step: error correction, the driver, CUDA and TensorFlow hold it. ``reserve_bytes`` is an
estimate of that part: of a T4's 16 GiB, TensorFlow's log offers 13.4 GiB.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from checkmate.catalog.bundled import resource

_TABLE = ("tables", "cards.json")


@dataclass(frozen=True)
class CardSize:
    """A size of memory, and common cards that have it."""

    memory_bytes: int
    cards: tuple[str, ...]


@dataclass(frozen=True)
class Cards:
    """Common cards by rising memory, and what of each is not there for a step."""

    reserve_bytes: int
    sizes: tuple[CardSize, ...]

    def left_for_step(self, memory_bytes: int) -> int:
        """Return the bytes of a card that a step may use; at least 1."""
        return max(1, memory_bytes - self.reserve_bytes)


def common_cards() -> Cards:
    """Return the table of common cards."""
    table: dict[str, Any] = json.loads(resource(*_TABLE).read_text(encoding="utf-8"))
    sizes = (CardSize(row["memory_bytes"], tuple(row["cards"])) for row in table["sizes"])
    return Cards(table["reserve_bytes"], tuple(sizes))
