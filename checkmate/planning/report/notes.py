"""Sentences for a report's notes: budget, schedule and costs."""

from __future__ import annotations

from checkmate.backends.tf.costs.session import ESTIMATED
from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult
from checkmate.machine.cost_origin import cache_facts, origin_words, reading_words
from checkmate.planning.verification.plain import Plain
from checkmate.units import Budget, format_bytes


def predicted_share_note(budget: Budget, allowed_bytes: int, plain: Plain) -> tuple[str, ...]:
    """Say what a share is of, where the plain step was not measured."""
    if budget.share is None or plain.measured is not None:
        return ()
    allowed, peak = format_bytes(allowed_bytes), format_bytes(plain.peak_bytes)
    return (f"the budget {allowed} is {100 * budget.share:g} % of the plain step's predicted peak {peak}",)


def replaced_note(first: SolveResult | None, result: SolveResult, allowed_bytes: int) -> tuple[str, ...]:
    """Say that another schedule was written than the one that was asked for."""
    if first is None or result is first:
        return ()
    steps, others = (sorted(each.require_schedule().steps.tolist()) for each in (first, result))
    if steps == others:
        return (
            f"the schedule that was asked for was over {format_bytes(allowed_bytes)} on the allocator's "
            "meter; its steps were put in another order",
        )
    asked, found = format_bytes(first.peak_bytes or 0), format_bytes(result.peak_bytes or 0)
    return (
        f"the schedule that was asked for ({asked} of requested bytes) was over "
        f"{format_bytes(allowed_bytes)} on the allocator's meter; a schedule of {found} replaced it",
    )


def reload_margin_note(taken_bytes: int) -> tuple[str, ...]:
    """Say why the goal is below the budget, if it is."""
    if not taken_bytes:
        return ()
    taken = format_bytes(taken_bytes)
    return (
        f"{taken} of the budget are left free, because the allocator lays out the reloaded step differently",
    )


def costs_note(graph: Graph) -> tuple[str, ...]:
    """Say when op costs were measured, or on what else than the plain step."""
    if measured_on := graph.metadata.get("profile", {}).get("measured_on"):
        return (f"op costs: measured on {measured_on}, because the plain step does not fit",)
    if cache_facts(graph).get("ops"):
        return (f"op costs: {origin_words(graph)}",)
    return tuple(note for note in graph.metadata.get("notes", ()) if str(note).startswith(ESTIMATED))


def doubts_note(graph: Graph) -> tuple[str, ...]:
    """Say why the costs are doubtful, if they are. They are the costs that the schedule was chosen by."""
    words = reading_words(graph)
    return (words,) if words else ()
