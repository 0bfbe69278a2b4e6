"""What a sample's card on the start page says and draws; no Qt."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from checkmate.catalog.shown_samples import ShownSample
from checkmate.units import format_bytes

_COSTS = {"measured": "of the step's time (measured ops)", "analytic": "of the step's operations"}


def facts(sample: ShownSample) -> str:
    """Return in a line how large the step is."""
    return f"{sample.ops} ops · batch {sample.batch_size}"


def curve_words(sample: ShownSample) -> str:
    """Say what the two curves are, and what the lower one costs."""
    proof = ", proved least" if sample.proved else ""
    costs = _COSTS.get(sample.cost_origin, "of the step's cost")
    return (
        f"{format_bytes(max(sample.plain_bytes))} where everything is kept; "
        f"{format_bytes(max(sample.kept_bytes))} for {100 * sample.extra_cost:+.1f} % {costs}{proof}."
    )


def outline(live: Sequence[int], columns: int) -> list[int]:
    """Return the largest bytes in each of ``columns`` equal parts of the step.

    So the peak is seen however narrow the picture is.
    """
    starts = [column * len(live) // columns for column in range(columns + 1)]
    return [max(live[start : max(start + 1, end)]) for start, end in pairwise(starts)]
