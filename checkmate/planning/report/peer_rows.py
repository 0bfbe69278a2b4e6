"""Measure one model trained in less memory in every known way.

The ways of others stand beside our schedules.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkmate.backends.tf.costs import session
from checkmate.backends.tf.environment import EXACT
from checkmate.backends.tf.fresh import run_task
from checkmate.backends.tf.measure.fresh_step import FreshMeasurement, measure_fresh
from checkmate.backends.tf.memory_check import first_region
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.catalog.peers import OURS_CHEN, PEERS, PLAIN, PeerMethod
from checkmate.errors import CancelledError, CheckmateError
from checkmate.ir.schedule import Schedule
from checkmate.memory.simulate import simulate
from checkmate.planning.fitting.fit_budget import BudgetFit, fit
from checkmate.planning.plain_step import measured_plainly
from checkmate.planning.solving import StepSolver
from checkmate.progress import Cancelled, Report
from checkmate.request import ModelRequest
from checkmate.units import format_bytes

Row = dict[str, Any]

_ROUNDS, _TIMING_S = 9, 60.0
_NO_EFFECT = 0.99  # of the plain peak: above it nothing was saved
_SAME_PEAK = 1.1  # peers this close have one row of ours between them, at the least of their peaks


@dataclass(frozen=True, eq=False)
class PeerSubject:
    """What every measurement of one model needs."""

    request: ModelRequest
    solver: StepSolver
    report: Report
    cancelled: Cancelled

    def ask(
        self, task: Mapping[str, Any], message: str, environment: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Return the answer of a fresh process, or ``failed``.

        It is ``failed`` where the process ended without an answer.

        Raises:
            CancelledError: the user cancelled.
        """
        whole = {"request": self.request.to_json(), **task}
        try:
            return run_task(
                whole,
                message=message,
                report=self.report,
                cancelled=self.cancelled,
                environment=environment or {},
            )
        except CancelledError:
            raise
        except CheckmateError as error:
            return {"failed": f"{type(error).__name__}: {error}"}


def measure_model(
    request: ModelRequest,
    *,
    peers: Sequence[PeerMethod] = PEERS,
    ours: bool = True,
    solver: StepSolver,
    keep: Callable[[Row], None],
    report: Report,
    cancelled: Cancelled,
) -> list[Row]:
    """Return rows for the plain step, ``peers`` and our schedules.

    Our schedules are left out unless ``ours``. ``keep`` is called with each row as soon as its peak is known.
    Times, gradients and state are measured for all together at the end; the rows returned have them. Figures
    are in bytes and seconds. A failure is a row.

    Raises:
        CancelledError: the user cancelled.
    """
    subject = PeerSubject(session.with_kernels_here(request), solver, report, cancelled)
    rows, layers = rows_of_methods(subject, (PLAIN, *peers), "measure_peer", "measuring", keep)
    if "peak_bytes" not in rows[0]:
        return rows
    schedules: list[tuple[Row, list[int]]] = []
    if ours:
        schedules = _ours(subject, rows, keep)
    rows += [row for row, _ in schedules]
    add_times(subject, rows, schedules, layers)
    _add_gradients(subject, rows, schedules, layers)
    return rows


def rows_of_methods(
    subject: PeerSubject, methods: Sequence[PeerMethod], do: str, doing: str, keep: Callable[[Row], None]
) -> tuple[list[Row], list[str]]:
    """Return rows of ``methods``, without times; the first is the plain step.

    ``do``: the task that tells a method's memory; ``doing``: the same in words. Also return the layers that
    ``list_of_layers`` is given. Where the plain step fails, its row is the only one.

    Raises:
        CancelledError: the user cancelled.
    """
    rows: list[Row] = []
    layers: list[str] = []
    for method in methods:
        task = {"do": do, "method": method.name, "layers": layers}
        answer = subject.ask(task, f"{doing} {method.label}")
        layers = answer.get("layers") or layers
        rows.append(peer_row(method, answer, rows[0].get("peak_bytes") if rows else None))
        keep(rows[-1])
        if "peak_bytes" not in rows[0]:
            break
    return rows, layers


def peer_row(method: PeerMethod, answer: Mapping[str, Any], plain_bytes: int | None) -> Row:
    """Return the row of a measured or compiled peer.

    ``status`` is ``ok``, ``no effect``, ``failed`` or ``not applicable``. A compiled one also has
    ``assigned``: what XLA told.
    """
    row: Row = {"method": method.name, "label": method.label, "ours": False, "note": answer.get("note", "")}
    if "not_applicable" in answer:
        return {**row, "status": "not applicable", "note": answer["not_applicable"]}
    if "failed" in answer:
        return {**row, "status": "failed", "note": answer["failed"]}
    peak = int(answer["peak_bytes"])
    saved = plain_bytes is None or peak < _NO_EFFECT * plain_bytes
    found = {**row, "status": "ok" if saved else "no effect", "peak_bytes": peak}
    return {**found, "assigned": answer["assigned"]} if "assigned" in answer else found


def targets(rows: Sequence[Row]) -> list[tuple[int, list[str]]]:
    """Return the peaks that peers reached, with the peers' labels.

    Peaks are in bytes and rising. Each has the labels of its peers. Peers less than 10 % apart stand
    together, at the least of their peaks.
    """
    found: list[tuple[int, list[str]]] = []
    reached = [
        row for row in rows if not row["ours"] and row["status"] == "ok" and row["method"] != PLAIN.name
    ]
    for row in sorted(reached, key=lambda row: row["peak_bytes"]):
        if found and row["peak_bytes"] < _SAME_PEAK * found[-1][0]:
            found[-1][1].append(row["label"])
        else:
            found.append((row["peak_bytes"], [row["label"]]))
    return found


def _ours(
    subject: PeerSubject, rows: Sequence[Row], keep: Callable[[Row], None]
) -> list[tuple[Row, list[int]]]:
    """Measure Chen's schedules, then ours.

    Chen's are on the traced ops, ours are in the memory of each peer. Return their rows, each with the
    schedule's steps; no steps where it did not run.
    """
    found: list[tuple[Row, list[int]]] = []
    try:
        _, folded, plain = measured_plainly(
            subject.request, report=subject.report, cancelled=subject.cancelled
        )
    except CancelledError:
        raise
    except CheckmateError as error:
        row = our_row("ours", "ours", "failed", f"{type(error).__name__}: {error}")
        keep(row)
        return [(row, [])]
    made: list[Callable[[], tuple[Row, list[int]]]] = [
        *(lambda label=label, name=name: _chen(subject, folded, label, name) for label, name in OURS_CHEN),
        *(lambda peak=peak, of=of: _at(subject, folded, plain, peak, of) for peak, of in targets(rows)),
    ]
    for make in made:
        row, steps = make()
        keep(row)
        found.append((row, steps))
    return found


def _chen(subject: PeerSubject, folded: FoldedStep, label: str, solver: str) -> tuple[Row, list[int]]:
    try:
        # Without a budget to keep, the strategy's own schedule.
        everything = simulate(folded.graph, Schedule.plain(folded.graph)).peak_bytes
        result = dataclasses.replace(subject.solver, name=solver).solve(folded.graph, 2 * everything)
        if result.schedule is None:
            return our_row(label, solver, "not applicable", result.message), []
        measured = measure_fresh(
            subject.request,
            result.schedule,
            message=f"measuring {label}",
            report=subject.report,
            cancelled=subject.cancelled,
            region=first_region(folded.graph, result.schedule),
        )
    except CancelledError:
        raise
    except CheckmateError as error:
        return our_row(label, solver, "failed", f"{type(error).__name__}: {error}"), []
    row = our_row(label, solver, "ok", f"{result.schedule.recomputations} ops recomputed")
    return {**row, "peak_bytes": measured.peak_bytes}, result.schedule.steps.tolist()


def _at(
    subject: PeerSubject, folded: FoldedStep, plain: FreshMeasurement, peak: int, of: Sequence[str]
) -> tuple[Row, list[int]]:
    label, name = f"ours within {format_bytes(peak)}", f"ours-{peak}"
    note = f"the memory of {' and '.join(of)}"
    try:
        fitted = fit(
            subject.request,
            folded,
            plain.history,
            peak,
            solve=subject.solver.solve,
            report=subject.report,
            cancelled=subject.cancelled,
        )
    except CancelledError:
        raise
    except CheckmateError as error:
        return our_row(label, name, "failed", f"{note}; {type(error).__name__}: {error}"), []
    return _fitted_row(our_row(label, name, "ok", note), fitted)


def _fitted_row(row: Row, fitted: BudgetFit) -> tuple[Row, list[int]]:
    facts = {"budget_bytes": fitted.allowed_bytes}
    if fitted.measured is None:
        why = fitted.result.message or "no schedule"
        return {**row, **facts, "status": fitted.result.status.value, "note": f"{row['note']}; {why}"}, []
    note = f"{row['note']}; {fitted.result.require_schedule().recomputations} ops recomputed"
    status = "ok" if fitted.fits else "over"
    whole = {**row, **facts, "status": status, "note": note, "peak_bytes": fitted.measured.peak_bytes}
    return whole, fitted.result.require_schedule().steps.tolist()


def our_row(label: str, name: str, status: str, note: str) -> Row:
    """Return a row of one of our schedules, without figures."""
    return {"method": name, "label": label, "ours": True, "status": status, "note": note}


def add_times(
    subject: PeerSubject,
    rows: Sequence[Row],
    schedules: Sequence[tuple[Row, Any]],
    layers: Sequence[str],
    do: str = "time_peers",
) -> None:
    """Add the least time of several rounds.

    In each round all take turns in one process. Memory is not measured there. ``schedules``: our rows, each
    with its schedule as the task ``do`` takes it; empty where there is none.
    """
    timed = [row for row in rows if not row["ours"] and "peak_bytes" in row]
    scheduled = [(row, steps) for row, steps in schedules if steps]
    task = {
        "do": do,
        "methods": [row["method"] for row in timed],
        "layers": list(layers),
        "schedules": [steps for _, steps in scheduled],
        "rounds": _ROUNDS,
        "limit_s": _TIMING_S,
    }
    answer = subject.ask(task, "timing all in turns")
    if "failed" in answer:
        for row in (*timed, *(row for row, _ in scheduled)):
            add_note(row, f"not timed: {answer['failed']}")
        return
    pairs = [(row, answer["methods"][row["method"]]) for row in timed]
    pairs += [(row, seconds) for (row, _), seconds in zip(scheduled, answer["schedules"], strict=True)]
    plain = answer["methods"][PLAIN.name]
    for row, seconds in pairs:
        if isinstance(seconds, str):
            add_note(row, f"not timed: {seconds}")
            continue
        # Whatever else the machine does only adds time: the least of each is compared.
        row["seconds"] = min(seconds)
        row["rounds"] = len(seconds)
        row |= {"clock": answer["clock"]} if "clock" in answer else {}
        if not isinstance(plain, str):
            row["overhead"] = min(seconds) / min(plain) - 1


def _add_gradients(
    subject: PeerSubject,
    rows: Sequence[Row],
    schedules: Sequence[tuple[Row, list[int]]],
    layers: Sequence[str],
) -> None:
    """Compare gradients and state with the plain step's. Both sides use the same kernels."""
    peers = [row for row in rows if not row["ours"] and "peak_bytes" in row and row["method"] != PLAIN.name]
    task: dict[str, Any]
    if peers:
        names = [row["method"] for row in peers]
        task = {"do": "compare_peers", "exact": True, "methods": names, "layers": list(layers)}
        answer = subject.ask(task, "comparing the gradients of all", EXACT)
        for row in peers:
            found = answer.get(row["method"], answer)
            if "failed" in found:
                add_note(row, f"not compared: {found['failed']}")
            else:
                row["compared"] = found
    scheduled = [(row, steps) for row, steps in schedules if steps]
    if scheduled:
        task = {"do": "compare_all", "exact": True, "schedules": [steps for _, steps in scheduled]}
        answer = subject.ask(task, "comparing the gradients of our schedules", EXACT)
        if "failed" in answer:
            for row, _ in scheduled:
                add_note(row, f"not compared: {answer['failed']}")
            return
        for (row, _), exact in zip(scheduled, answer["schedules"], strict=True):
            row["compared"] = {
                "bitwise": bool(exact["bitwise"]),
                "relative_error": exact["overall_relative_error"],
                "worst": exact["worst"]["relative_error"],
                "state_bitwise": bool(exact["state_bitwise"]),
            }


def add_note(row: Row, problem: str) -> None:
    """Add what went wrong to the note of ``row``."""
    row["note"] = "; ".join(filter(None, (row["note"], problem)))
