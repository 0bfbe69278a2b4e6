"""What ``checkmate plan --devices`` found: its JSON, and its table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from checkmate.frontiers.cards import CardFit
from checkmate.largest import roofline
from checkmate.largest.on_cards import CardPlan, CardStep
from checkmate.largest.scaling import BatchScaling
from checkmate.text_table import aligned_lines
from checkmate.units import format_bytes, format_seconds

FORMAT, VERSION = "checkmate-device-plan", 1
_HEAD = ("card", "for the step", "plain batch", "an example", "batch", "overhead", "an example", "")


def facts(scaling: BatchScaling, plans: Sequence[CardPlan], reserve_bytes: int) -> dict[str, Any]:
    graph = scaling.graph
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": graph.name,
        "ops": graph.n,
        "estimated": True,
        "extrapolation": scaling.note(),
        "reserve_bytes": reserve_bytes,
        "assumed": {
            "share_of_operations": roofline.OF_OPERATIONS,
            "share_of_bandwidth": roofline.OF_BANDWIDTH,
            "seconds_to_start_an_op": roofline.START_S,
        },
        "rows": [_row(plan) for plan in plans],
    }


def text(
    scaling: BatchScaling, plans: Sequence[CardPlan], reserve_bytes: int, max_overhead: float | None
) -> str:
    graph = scaling.graph
    table = [_HEAD, *map(_cells, plans)]
    return "\n".join(
        [
            f"{graph.name}: {graph.n} ops; the largest batch on each card, without recomputation and with "
            f"{_rule(max_overhead)}",
            *(f"  {line}" for line in aligned_lines(table, left=(0, 7))),
            *notes(scaling, reserve_bytes),
        ]
    )


def notes(scaling: BatchScaling, reserve_bytes: int) -> tuple[str, ...]:
    return (
        "All of it is estimated; nothing was run on a card. Seconds: the longer of operations at "
        f"{roofline.OF_OPERATIONS:.0%} and bytes moved at {roofline.OF_BANDWIDTH:.0%} of the data sheet's "
        f"peak, and {1e6 * roofline.START_S:.0f} µs to start an op.",
        f"Of each card, {format_bytes(reserve_bytes)} are assumed to be taken by the driver, CUDA and "
        "TensorFlow. Peaks are requested bytes, with the scratch memory of this machine's kernels.",
        f"Batches: {scaling.note()}.",
    )


def _rule(max_overhead: float | None) -> str:
    if max_overhead is None:
        return "at most one extra forward pass"
    return "any extra cost" if max_overhead == float("inf") else f"at most {max_overhead:.0%} more cost"


def _cells(plan: CardPlan) -> tuple[str, ...]:
    plain, largest = plan.plain, plan.largest
    return (
        plan.card.name,
        format_bytes(plan.budget_bytes),
        f"{plain.batch:,}" if plain else "-",
        format_seconds(plain.seconds_per_example) if plain else "-",
        f"{largest.batch:,}" if largest else "-",
        f"+{100 * largest.overhead:.0f} %" if largest else "-",
        format_seconds(largest.seconds_per_example) if largest else "-",
        _proof(plan),
    )


def _proof(plan: CardPlan) -> str:
    if plan.answer is CardFit.TOO_SMALL:
        return "not one example fits, proved"
    if plan.answer is CardFit.UNKNOWN:
        return "no schedule found in the time"
    return "proved largest" if plan.proved else f"proved: none above {plan.upper_batch:,}"


def _row(plan: CardPlan) -> dict[str, Any]:
    return {
        "card": plan.card.name,
        "memory_bytes": plan.card.memory_bytes,
        "budget_bytes": plan.budget_bytes,
        "bandwidth": plan.card.bandwidth,
        "float32_operations": plan.card.matrix,
        "half_operations": plan.card.half,
        "answer": plan.answer.value,
        "plain": _step(plan.plain),
        "largest": _step(plan.largest),
        "upper_bound_batch": plan.upper_batch,
        "proved": plan.proved,
    }


def _step(step: CardStep | None) -> dict[str, Any] | None:
    if step is None:
        return None
    return {
        "batch": step.batch,
        "seconds": step.seconds,
        "seconds_per_example": step.seconds_per_example,
        "overhead": step.overhead,
    }
