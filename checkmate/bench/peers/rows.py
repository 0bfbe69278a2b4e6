"""Measure models × ways of training in less memory.

Keras's and TensorFlow's own ways are measured beside ours, each in fresh processes. A run can be resumed.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from checkmate import planning
from checkmate.bench.common import rows as saved
from checkmate.bench.common.machine import Machine
from checkmate.bench.common.rows import Row, Save, file_of_rows, saving
from checkmate.bench.fidelity.rows import Measured
from checkmate.errors import FormatError
from checkmate.formats.files import read_json
from checkmate.progress import Cancelled, Progress, Report, never, silent, stop_if
from checkmate.request import Target
from checkmate.solvers.problem import SolveOptions

FORMAT = "checkmate-peers"
PLAIN = "plain"
_WORDS = {Target.EXECUTOR: "TensorFlow's executor", Target.XLA: "XLA"}


def run(
    wanted: Sequence[Measured],
    options: SolveOptions,
    *,
    ours: bool = True,
    done: Iterable[Row] = (),
    save: Callable[[list[Row]], None] = lambda rows: None,
    told: Callable[[Row], None] = lambda row: None,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> list[Row]:
    """Measure each model; return all rows.

    ``told`` gets each row as its peak is known; ``save`` gets all rows so far, then and after each model.
    Models that have rows in ``done`` are not measured again, unless these are ``unfinished``: without times
    and gradients.

    Raises:
        CancelledError: the user cancelled; what was saved stays.
    """
    rows = [row for row in done if not row.get("unfinished")]
    for number, subject in enumerate(wanted):
        stop_if(cancelled)
        key = (subject.name, subject.request.batch_size)
        if any((row["model"], row["batch_size"]) == key for row in rows):
            continue
        named = {"model": subject.name, "batch_size": subject.request.batch_size}
        report(Progress("peers", number, len(wanted), subject.name))
        partial = list(rows)

        def keep(row: Row, named: Row = named, partial: list[Row] = partial) -> None:
            partial.append({**named, **row, "unfinished": True})
            save(partial)
            told({**named, **row})

        found = planning.peers(
            subject.request,
            ours=ours,
            options=options,
            keep=keep,
            report=report,
            cancelled=cancelled,
        )
        rows += [{**named, **row} for row in found]
        save(rows)
    return rows


def facts(
    rows: Sequence[Row], machine: Machine, options: SolveOptions, target: Target = Target.EXECUTOR
) -> dict[str, Any]:
    """Return all that was measured as one JSON object. ``target``: what ran the steps."""
    shared = [{**row, "share": share(row, rows)} for row in rows]
    return {**file_of_rows(FORMAT, machine, options, shared, summary(rows)), "target": target.value}


def save_to(path: Path, machine: Machine, options: SolveOptions, target: Target = Target.EXECUTOR) -> Save:
    """Return a function that writes the whole file from all rows."""
    return saving(path, lambda rows: facts(rows, machine, options, target))


def target_of(data: Mapping[str, Any]) -> Target:
    """Return what ran the steps of a file.

    Older files do not say it: their steps ran on the executor.

    Raises:
        ValueError: the file names something else.
    """
    return Target(data.get("target", Target.EXECUTOR))


def read_rows(path: Path, target: Target = Target.EXECUTOR) -> list[Row]:
    """Return the rows of an earlier run; none where there is no file.

    Raises:
        FormatError: the file holds something else, or rows of another target.
    """
    rows = saved.read_rows(path, FORMAT, "a measurement of peers")
    if rows and read_json(path).get("target", Target.EXECUTOR) != target:
        raise FormatError(
            f"{path} is a measurement of peers whose steps did not run on {_WORDS[target]}",
            hint="choose another file, or another --target",
        )
    return rows


def plain_of(row: Row, rows: Sequence[Row]) -> Row | None:
    """Return the plain step's row of the same model."""
    key = (row["model"], row["batch_size"])
    same = (each for each in rows if (each["model"], each["batch_size"]) == key)
    return next((each for each in same if each["method"] == PLAIN), None)


def share(row: Row, rows: Sequence[Row]) -> float | None:
    """Return the memory as a share of the plain step's.

    That is the measured peak, or what XLA assigned. None where either is not known.
    """
    plain = plain_of(row, rows)
    if plain is None or "peak_bytes" not in row or "peak_bytes" not in plain:
        return None
    return float(row["peak_bytes"] / plain["peak_bytes"])


def correct(row: Row) -> bool | None:
    """Return whether the step does what the plain step does.

    Its gradients must agree within rounding, and every static must be updated once. None if unknown.
    """
    found = row.get("compared")
    if not found:
        return None
    return gradients_right(found) and statics_right(found)


# Relative errors that another order of float32 sums can cause: of all gradients together, and of a small one
# alone.
ROUNDING, ROUNDING_OF_ONE = 1e-4, 1e-2


def gradients_right(compared: dict[str, Any]) -> bool:
    """Return whether the gradients agree with the plain step's.

    They are bitwise equal, or all together within 10⁻⁴ and each within 1 %: one large gradient can hide
    all others. Where the comparison states a tolerance of its own, that holds.
    """
    allowed = compared.get("tolerance", {"all": ROUNDING, "each": ROUNDING_OF_ONE})
    near = float(compared["relative_error"]) <= allowed["all"] and float(compared["worst"]) <= allowed["each"]
    return bool(compared["bitwise"]) or near


def statics_right(compared: dict[str, Any]) -> bool:
    """Return whether statistics, seeds and counters are right.

    They must be the plain step's after one step.
    """
    state = compared.get("state")
    if state is None:
        return bool(compared["state_bitwise"])
    return int(state["twice"]) + int(state["differs"]) == 0


def pairs(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Return pairs of a peer's row and our row of no more memory.

    Both have been timed. Ours is the one with the largest budget that is at most the peer's peak.
    """
    found = []
    for row in rows:
        if row["ours"] or row["method"] == PLAIN or row["status"] != "ok" or "overhead" not in row:
            continue
        key = (row["model"], row["batch_size"])
        ours = [
            each
            for each in rows
            if each["ours"] and (each["model"], each["batch_size"]) == key
            and "budget_bytes" in each and each["status"] == "ok" and "overhead" in each
            and each["budget_bytes"] <= row["peak_bytes"]
        ]  # fmt: skip
        if ours:
            found.append((row, max(ours, key=lambda each: int(each["budget_bytes"]))))
    return found


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Return how the peers' attempts ended, and overheads.

    How many saved memory, failed or trained something else; the overheads are at equal memory.
    """
    peers = [row for row in rows if not row["ours"] and row["method"] != PLAIN]
    compared = [row for row in peers if correct(row) is not None]
    equal = pairs(rows)
    return {
        "peers": len(peers),
        **{status.replace(" ", "_"): sum(row["status"] == status for row in peers) for status in STATUSES},
        "compared": len(compared),
        "correct": sum(correct(row) is True for row in compared),
        "ours_compared": sum(correct(row) is not None for row in rows if row["ours"]),
        "ours_correct": sum(correct(row) is True for row in rows if row["ours"]),
        "at_equal_memory": {
            "count": len(equal),
            "peers_overhead_median": statistics.median(peer["overhead"] for peer, _ in equal)
            if equal
            else None,
            "ours_overhead_median": statistics.median(ours["overhead"] for _, ours in equal)
            if equal
            else None,
            "ours_less": sum(ours["overhead"] < peer["overhead"] for peer, ours in equal),
        },
    }


STATUSES = ("ok", "no effect", "failed", "not applicable")
