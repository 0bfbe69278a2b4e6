"""How far a budget reaches over input sizes, in words; no Qt."""

from __future__ import annotations

from collections.abc import Callable

from checkmate.units import format_bytes

TIP = (
    "Estimated from traces at {traced}: exact there, and on a parabola elsewhere. Only schedules that are "
    "known count. The size that you choose is traced, too; its costs are operation counts."
)
OFFER = "Trace the model at two further sizes, in the background. Nothing is measured."


def coming_words(words: Callable[[int], str], level: int, plain_bytes: int) -> str:
    """Say what an unexplored size needs where everything is kept. ``words`` names a level."""
    return f"{_first_up(words(level))}: {format_bytes(plain_bytes)} all kept, estimated"


def reach_words(words: Callable[[int], str], level: int, kept: int, fits: int) -> str:
    """Say up to which size the budget keeps everything, and fits at all."""
    if not fits:
        return "No input size is known to fit this budget"
    if level > fits:
        return f"This budget fits only up to {words(fits)}"
    if kept in (0, fits):
        return f"This budget fits up to {words(fits)}"
    return f"Fits {words(fits)}; all kept up to {words(kept)}"


def _first_up(text: str) -> str:
    return text[:1].upper() + text[1:]
