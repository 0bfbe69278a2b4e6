"""Write a file's figures in words.

There is a dash where there is no figure. Also name the machine of a measurement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from checkmate.bench.common.machine import Machine

NONE = "–"


def number(value: float | None, digits: int = 2) -> str:
    """Return a number such as ``1.25``, or a dash."""
    return NONE if value is None else f"{value:,.{digits}f}"


def percent(value: float | None, digits: int = 2) -> str:
    """Return a percentage, or a dash. A value that is below zero only by rounding becomes zero."""
    return NONE if value is None else f"{max(0.0, value):,.{digits}f}"


def count(value: float | None) -> str:
    """Return a whole number, or a dash."""
    return NONE if value is None else f"{value:,.0f}"


def seconds(value: float | None) -> str:
    """Return seconds as the tables of ``bench`` print them."""
    if value is None:
        return NONE
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def machine(data: Mapping[str, Any]) -> str:
    """Return the machine of a measurement. Empty where the file does not name it."""
    told = data.get("machine")
    if not isinstance(told, Mapping):
        return ""
    known = {field.name: told[field.name] for field in fields(Machine) if field.name in told}
    try:
        return str(Machine(**known))
    except TypeError:  # written by another version: use the fields that are there
        return ", ".join(str(value) for value in told.values() if isinstance(value, (str, int)))
