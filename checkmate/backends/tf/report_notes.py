"""Sentences for a report's notes: budget, schedule and costs."""

from __future__ import annotations

from checkmate.backends.tf.costs.session import ESTIMATED
from checkmate.backends.tf.plain import Plain
from checkmate.ir.graph import Graph
from checkmate.machine.cost_origin import cache_facts, origin_words, reading_words
from checkmate.units import Budget, format_bytes


def predicted_share_note(budget: Budget, allowed_bytes: int, plain: Plain) -> tuple[str, ...]:
    """Say what a share is of, where the plain step was not measured."""
    if budget.share is None or plain.measured is not None:
        return ()
    allowed, peak = format_bytes(allowed_bytes), format_bytes(plain.peak_bytes)
    return (f"the budget {allowed} is {100 * budget.share:g} % of the plain step's predicted peak {peak}",)


def costs_note(graph: Graph) -> tuple[str, ...]:
    """Say when op costs were measured, or on what else than the plain step."""
    if measured_on := graph.origin.profile.get("measured_on"):
        return (f"op costs: measured on {measured_on}, because the plain step does not fit",)
    if cache_facts(graph).get("ops"):
        return (f"op costs: {origin_words(graph)}",)
    return tuple(note for note in graph.origin.notes if note.startswith(ESTIMATED))


def doubts_note(graph: Graph) -> tuple[str, ...]:
    """Say why the costs are doubtful, if they are. They are the costs that the schedule was chosen by."""
    words = reading_words(graph)
    return (words,) if words else ()
