"""Compile one model under every known way to take less memory, with XLA.

The ways of others stand beside our schedules. Memory is what XLA assigned: arguments, results and
temporaries.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from checkmate.backends.tf.costs import session
from checkmate.backends.tf.xla.costs import costs_for_xla
from checkmate.backends.tf.xla.emission import XlaEmission
from checkmate.catalog.peers import OURS_CHEN, PEERS, XLA_ALONE, PeerMethod
from checkmate.errors import CancelledError, CheckmateError
from checkmate.planning.compiled.search import CompiledSearch, FittedStep
from checkmate.planning.compiled.step import TracedForXla
from checkmate.planning.compiled.verify import begun
from checkmate.planning.report.peer_rows import (
    PeerSubject,
    Row,
    add_note,
    add_times,
    our_row,
    rows_of_methods,
    targets,
)
from checkmate.planning.solving import StepSolver, keep_everything_peak
from checkmate.progress import Cancelled, Report
from checkmate.request import ModelRequest
from checkmate.units import format_bytes, plural

# A schedule as the tasks of ``checkmate.backends.tf.peers.compiled`` take it; empty where there is none.
_Emitted = dict[str, Any]


def measure_compiled_model(
    request: ModelRequest,
    *,
    peers: Sequence[PeerMethod] = PEERS,
    ours: bool = True,
    solver: StepSolver,
    keep: Callable[[Row], None],
    report: Report,
    cancelled: Cancelled,
) -> list[Row]:
    """Return rows for XLA alone, ``peers`` under XLA and our schedules.

    As ``checkmate.planning.report.peer_rows.measure_model``, but ``peak_bytes`` is what XLA assigned, and
    ``assigned`` tells its parts. Gradients and state are compared with those of XLA alone.

    Raises:
        CancelledError: the user cancelled.
    """
    subject = PeerSubject(session.with_kernels_here(request), solver, report, cancelled)
    methods = (XLA_ALONE, *peers)
    rows, layers = rows_of_methods(subject, methods, "compile_peer", "compiling with XLA:", keep)
    if "peak_bytes" not in rows[0]:
        return rows
    schedules = _ours(subject, rows, keep) if ours else []
    rows += [row for row, _ in schedules]
    add_times(subject, rows, schedules, layers, "time_compiled_peers")
    _add_comparisons(subject, rows, schedules, layers)
    return rows


def _ours(
    subject: PeerSubject, rows: Sequence[Row], keep: Callable[[Row], None]
) -> list[tuple[Row, _Emitted]]:
    """Compile Chen's schedules, then ours in the memory of each peer.

    Return their rows, each with the schedule.
    """
    try:
        search = _search(subject)
    except CancelledError:
        raise
    except CheckmateError as error:
        row = our_row("ours", "ours", "failed", _sentence(error))
        keep(row)
        return [(row, {})]
    made: list[Callable[[], tuple[Row, _Emitted]]] = [
        *(partial(_chen, subject, search, label, name) for label, name in OURS_CHEN),
        *(partial(_within, search, peak, of) for peak, of in targets(rows)),
    ]
    found: list[tuple[Row, _Emitted]] = []
    for make in made:
        found.append(make())
        keep(found[-1][0])
    return found


def _search(subject: PeerSubject) -> CompiledSearch:
    """Trace the step, compile it plainly and return the search for schedules."""
    folded = session.prepare(subject.request, report=subject.report, cancelled=subject.cancelled)
    folded = dataclasses.replace(folded, graph=costs_for_xla(folded))
    request = session.with_kernels_of(subject.request, folded.graph)
    return begun(TracedForXla(request, folded, subject.report, subject.cancelled), subject.solver)


def _chen(subject: PeerSubject, search: CompiledSearch, label: str, solver: str) -> tuple[Row, _Emitted]:
    graph = search.step.graph
    try:
        # Without a budget to keep, the strategy's own schedule.
        everything = keep_everything_peak(graph)
        result = dataclasses.replace(subject.solver, name=solver).solve(graph, 2 * everything)
        if result.schedule is None:
            return our_row(label, solver, "not applicable", result.message), {}
        fitted = search.as_given(result, search.plain.memory.peak_bytes)
    except CancelledError:
        raise
    except CheckmateError as error:
        return our_row(label, solver, "failed", _sentence(error)), {}
    return _with_memory(our_row(label, solver, "ok", ""), fitted), _emitted(fitted)


def _within(search: CompiledSearch, peak: int, of: Sequence[str]) -> tuple[Row, _Emitted]:
    """Compile schedules until one takes no more than the methods ``of``."""
    label, name = f"ours within {format_bytes(peak)}", f"ours-{peak}"
    note = f"the memory of {' and '.join(of)}"
    try:
        fitted = search.closest(peak)
    except CancelledError:
        raise
    except CheckmateError as error:
        return our_row(label, name, "failed", f"{note}; {_sentence(error)}"), {}
    row = {**our_row(label, name, "ok" if fitted.fit.fits else "over", note), "budget_bytes": peak}
    if fitted.fit.schedule is None:
        why = "no schedule that was compiled takes less than XLA alone"
        return {**row, "note": f"{note}; {why}"}, {}
    return _with_memory(row, fitted), _emitted(fitted)


def _with_memory(row: Row, fitted: FittedStep) -> Row:
    """Return ``row`` with what XLA assigned, and how many were compiled."""
    again = plural(fitted.result.require_schedule().recomputations, "op")
    tried = plural(len(fitted.fit.attempts), "schedule")
    note = "; ".join(filter(None, (row["note"], f"{again} recomputed, {tried} compiled")))
    memory = fitted.fit.memory
    assigned = {**memory.facts(), "compile_seconds": fitted.fit.compile_seconds}
    return {**row, "note": note, "peak_bytes": memory.peak_bytes, "assigned": assigned}


def _emitted(fitted: FittedStep) -> _Emitted:
    steps = fitted.result.require_schedule().steps.tolist()
    return {"steps": steps, "xla": XlaEmission(fitted.fit.tied).to_json()}


def _add_comparisons(
    subject: PeerSubject,
    rows: Sequence[Row],
    schedules: Sequence[tuple[Row, _Emitted]],
    layers: Sequence[str],
) -> None:
    """Compare gradients and state with those of XLA alone."""
    peers = [row for row in rows[1:] if not row["ours"] and "peak_bytes" in row]
    scheduled = [(row, emitted) for row, emitted in schedules if emitted]
    task = {
        "do": "compare_compiled_peers",
        "methods": [row["method"] for row in peers],
        "layers": list(layers),
        "schedules": [emitted for _, emitted in scheduled],
    }
    answer = subject.ask(task, "comparing gradients and state of all, compiled by XLA")
    if "failed" in answer:
        found = [(row, answer) for row in (*peers, *(row for row, _ in scheduled))]
    else:
        found = [(row, answer["methods"][row["method"]]) for row in peers]
        found += [(row, each) for (row, _), each in zip(scheduled, answer["schedules"], strict=True)]
    for row, each in found:
        if "failed" in each:
            add_note(row, f"not compared: {each['failed']}")
        else:
            row["compared"] = each


def _sentence(error: CheckmateError) -> str:
    return f"{type(error).__name__}: {error}"
