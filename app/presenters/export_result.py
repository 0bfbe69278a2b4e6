"""What the export dialog says, and what to send along when something went wrong."""

from __future__ import annotations

import contextlib
import html
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from app.presenters.wording import as_sentence, strong
from app.state.knowledge import ListedSchedule
from checkmate.ir import Graph, Schedule
from checkmate.machine.fault_report import this_machine
from checkmate.memory.simulate import simulate
from checkmate.runner import Runner, runner_of
from checkmate.units import Budget, format_bytes, format_seconds, plural

_CHUNKS = 1.1  # what an allocator may add to the requested bytes, if no profile has measured it
_ROOM = 1.05  # a step without a schedule is given this much more than it should need


def default_budget(found: ListedSchedule, budget_bytes: int) -> int:
    """The bytes that the allocator may show: the slider's budget, or what the schedule needs. A schedule that
    recomputes nothing is not made for a budget: it is allowed what its allocations should need."""
    budget = max(budget_bytes, found.peak_bytes)
    if found.schedule.recomputations:
        return budget
    rate = found.graph.origin.profile.get("allocated_per_requested", _CHUNKS)
    return max(budget, int(found.peak_bytes * max(1.0, float(rate)) * _ROOM))


def first_budget(found: ListedSchedule, budget_bytes: int) -> tuple[str, Budget]:
    """The budget that the dialog begins with. XLA gives out other bytes than the graph counts: there it is a
    share of the plain step as XLA compiles it."""
    size = default_budget(found, budget_bytes)
    if not found.graph.runner.compiled:
        return format_bytes(size), Budget(bytes_=size)
    plain = simulate(found.graph, Schedule.plain(found.graph)).peak_bytes
    share = min(1.0, max(budget_bytes, found.peak_bytes) / max(1, plain))
    return f"{100 * share:.0f}%", Budget(share=share)


def result_text(report: Mapping[str, Any], directory: Path) -> str:
    peak, seconds = report["peak_bytes"], report["seconds"]
    head = f"Written to {directory}, but something is not as promised:"
    if report["ok"]:
        head = f"Verified and written to {directory}."
    problems = _sentences(report["problems"])
    rows = [
        (_peak_name(report), _bytes(peak["predicted"]), _bytes(peak["measured"])),
        ("peak, as the ops request", _bytes(peak["predicted_requested"]), _bytes(peak["measured_requested"])),
        ("peak after reloading", _bytes(peak.get("reloaded_predicted")), _bytes(peak["reloaded_measured"])),
        ("a step takes", _seconds(seconds["predicted"]), _seconds(seconds["measured"])),
        ("the plain step", *_plain(report)),
    ]
    gap = "&nbsp;" * 5
    right = "<td align='right'>"
    cells = "".join(
        f"<tr><td>{what}{gap}</td>{right}{predicted}</td>{right}{gap}{strong(measured)}</td></tr>"
        for what, predicted, measured in rows
    )
    budget = _bytes(report["budget_bytes"])
    titles = f"<tr><td>budget {budget}</td>{right}predicted</td>{right}{gap}measured</td></tr>"
    notes = _sentences(report.get("notes", ()))
    table = f"<table cellspacing='0' cellpadding='2'>{titles}{cells}</table>"
    return f"{strong(head)}{problems}{table}{_gradients(report)}<br>{notes}"


def _sentences(texts: Iterable[str]) -> str:
    return "".join(f"<br>{html.escape(as_sentence(text))}" for text in texts)


def _peak_name(report: Mapping[str, Any]) -> str:
    runner = _runner(report)
    if not runner.metered:
        return "peak, as XLA says"
    return f"peak, {'by XLA and ' if runner.compiled else ''}as the allocator counts"


def _runner(report: Mapping[str, Any]) -> Runner:
    return runner_of(report.get("settings", {}))


def _plain(report: Mapping[str, Any]) -> tuple[str, str]:
    peak, seconds = report["peak_bytes"], report["seconds"]
    predicted = _together(peak["plain_predicted"], seconds["plain_predicted"])
    if peak["plain_measured"] is None and _runner(report).metered:
        return predicted, "does not fit"
    return predicted, _together(peak["plain_measured"], seconds["plain_measured"])


def _together(size: int | None, seconds: float | None) -> str:
    time = "" if seconds is None else format_seconds(seconds)
    return ", ".join(part for part in (_bytes(size), time) if part)


def _gradients(report: Mapping[str, Any]) -> str:
    gradients = report["gradients"]
    own = gradients.get("compared", "gradients") != "gradients"
    if gradients["equal"] is None:
        return f"{'Results and variables' if own else 'Gradients'} were not compared."
    good = "bitwise equal to the plain step's" if gradients["bitwise"] else "equal to the plain step's"
    batch = gradients.get("batch_size")
    at = "" if batch in (None, report["batch_size"]) else f" at batch {batch}, where the plain step fits"
    if own:
        steps = plural(gradients["steps"], "step")
        return f"✓ what the step returns and its variables {good} after {steps}{at}"
    return f"✓ gradients {good}{at}"


def _bytes(size: int | None) -> str:
    return "" if size is None else format_bytes(size)


def _seconds(seconds: float | None) -> str:
    return "not known" if seconds is None else format_seconds(seconds)


_LINES = 40  # of the log


def problem_report(sentence: str, hint: str, graph: Graph | None, log: Path | None) -> str:
    lines = [sentence, *([hint] if hint else []), "", *this_machine()]
    if graph is not None:
        lines.append(f"graph: {graph.name}, {graph.n} ops, fingerprint {graph.fingerprint}")
    if log is not None:
        with contextlib.suppress(OSError):
            written = log.read_text(encoding="utf-8", errors="replace").splitlines()
            lines += ["", f"end of {log}:", *written[-_LINES:]]
    return "\n".join(lines) + "\n"
