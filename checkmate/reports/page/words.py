"""Write a file's figures in words. There is a dash where there is no figure."""

from __future__ import annotations

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
    """Return seconds with three figures or so, or a dash."""
    if value is None:
        return NONE
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 100 else f"{value:,.0f}"
