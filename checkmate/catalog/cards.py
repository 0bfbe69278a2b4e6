"""The memory and the speed of common graphics cards (``resources/tables/cards.json``).

Figures are what the maker's data sheet says, dense (without sparsity), with accumulation in float32.
``reserve_bytes`` is an estimate of what error correction, the driver, CUDA and TensorFlow hold: of a T4's 16
GiB, TensorFlow's log offers 13.4 GiB."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from checkmate.catalog.bundled import resource
from checkmate.errors import UsageError

_TABLE = ("tables", "cards.json")
_GIB, _GIGA, _TERA = 2**30, 1e9, 1e12


@dataclass(frozen=True)
class Card:
    """One card: its memory in bytes, and its peaks per second: bytes moved, and floating-point operations.
    ``matrix`` is of products and convolutions of float32 values; they are in TF32 where the card has it,
    TensorFlow's default. ``half`` is the same of float16 and bfloat16 values, ``vector`` of everything
    else."""

    name: str
    memory_bytes: int
    bandwidth: float
    vector: float
    matrix: float
    half: float


@dataclass(frozen=True)
class CardSize:
    memory_bytes: int
    cards: tuple[str, ...]


@dataclass(frozen=True)
class Cards:
    reserve_bytes: int
    sizes: tuple[CardSize, ...]

    def left_for_step(self, memory_bytes: int) -> int:
        """Return the bytes of a card that a step may use; at least 1."""
        return max(1, memory_bytes - self.reserve_bytes)


def card_models() -> tuple[Card, ...]:
    return tuple(_card(row) for row in _table()["cards"])


def common_cards() -> Cards:
    groups = groupby(card_models(), lambda card: card.memory_bytes)
    sizes = (CardSize(memory, tuple(card.name for card in cards)) for memory, cards in groups)
    return Cards(_table()["reserve_bytes"], tuple(sizes))


def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(resource(*_TABLE).read_text(encoding="utf-8"))
    return table


def _card(row: dict[str, Any]) -> Card:
    return Card(
        row["name"],
        row["memory_gib"] * _GIB,
        row["bandwidth_gb_s"] * _GIGA,
        row["float32_tflops"] * _TERA,
        row["float32_matrix_tflops"] * _TERA,
        row["half_matrix_tflops"] * _TERA,
    )


def cards_called(names: Sequence[str]) -> tuple[Card, ...]:
    """Return the cards that ``names``, or parts of names, mean, by rising memory; all if there is no name."""
    cards = card_models()
    chosen: set[Card] = set()
    for name in (name.strip().lower() for name in names):
        called = [card for card in cards if card.name.lower() == name]
        called = called or [card for card in cards if name in card.name.lower()]
        if not called:
            raise UsageError(
                f"there is no card called {name!r} in the table",
                hint=f"choose from {', '.join(card.name for card in cards)}",
            )
        chosen.update(called)
    return tuple(card for card in cards if not names or card in chosen)
