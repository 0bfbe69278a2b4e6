"""How far a budget reaches over batches, in words; no Qt."""

from __future__ import annotations

from checkmate.units import format_bytes

TIP = (
    "Estimated: sizes and costs are scaled from batch {base}, and only schedules that are known count. "
    "Largest batch… searches, and proves."
)


def coming_words(batch: int, plain_bytes: int) -> str:
    """Say what an unexplored batch needs where everything is kept."""
    return f"Batch {batch:,}: {format_bytes(plain_bytes)} all kept, estimated"


def reach_words(batch: int, kept: int, fits: int) -> str:
    """Say up to which batch the budget keeps everything, and fits at all."""
    if not fits:
        return "No batch is known to fit this budget"
    if batch > fits:
        return f"This budget fits only up to batch {fits:,}"
    if kept in (0, fits):
        return f"This budget fits up to batch {fits:,}"
    return f"Fits up to batch {fits:,}; all kept up to {kept:,}"
