"""Figures of a file in words: a dash where there is none, and what was measured on which machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from checkmate.bench.common.machine import Machine

NONE = "–"


def number(value: float | None, digits: int = 2) -> str:
    """``1.25``, or a dash."""
    return NONE if value is None else f"{value:,.{digits}f}"


def percent(value: float | None, digits: int = 2) -> str:
    """Of a figure in percent that cannot be below zero but by rounding."""
    return NONE if value is None else f"{max(0.0, value):,.{digits}f}"


def count(value: float | None) -> str:
    """A whole number, or a dash."""
    return NONE if value is None else f"{value:,.0f}"


def plural(number: int, word: str) -> str:
    """``1 row``, ``2 rows``."""
    return f"{number:,} {word}{'s' * (number != 1)}"


def seconds(value: float | None) -> str:
    """As the tables of ``bench`` have them."""
    if value is None:
        return NONE
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def machine(data: Mapping[str, Any]) -> str:
    """What a file was measured on; nothing where it does not say."""
    told = data.get("machine")
    if not isinstance(told, Mapping):
        return ""
    known = {field.name: told[field.name] for field in fields(Machine) if field.name in told}
    try:
        return str(Machine(**known))
    except TypeError:  # of another version of this program: what it does say
        return ", ".join(str(value) for value in told.values() if isinstance(value, (str, int)))
