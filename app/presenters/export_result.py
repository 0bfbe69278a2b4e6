"""What the export dialog says, and what to send along when something went wrong."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.presenters.wording import as_sentence
from app.state.knowledge import ListedSchedule
from checkmate.ir import Graph, Schedule
from checkmate.machine.fault_report import this_machine
from checkmate.memory.simulate import simulate
from checkmate.runner import JAX, TORCH, Runner, runner_of
from checkmate.units import Budget, format_bytes, format_bytes_enough, format_overhead, format_seconds, plural

_CHUNKS = 1.1  # what an allocator may add to the requested bytes, if no profile has measured it
_HOW = "measured", "predicted"
_ROOM = 1.05  # a step without a schedule is given this much more than it should need


def default_budget(found: ListedSchedule, budget_bytes: int) -> int:
    """The bytes that the allocator may show: the slider's budget, or the schedule's peak if that is more.
    A schedule without recomputation was not solved for a budget: it gets what it is expected to allocate."""
    budget = max(budget_bytes, found.peak_bytes)
    if found.schedule.recomputations:
        return budget
    rate = found.graph.origin.profile.get("allocated_per_requested", _CHUNKS)
    return max(budget, int(found.peak_bytes * max(1.0, float(rate)) * _ROOM))


def first_budget(found: ListedSchedule, budget_bytes: int) -> tuple[str, Budget]:
    """The dialog's default budget, as text and value. XLA's bytes differ from the graph's, so a compiled step
    gets a share of the plain step's peak."""
    size = default_budget(found, budget_bytes)
    if not found.graph.runner.compiled:
        return format_bytes(size), Budget(bytes_=size)
    plain = simulate(found.graph, Schedule.plain(found.graph)).peak_bytes
    share = min(1.0, max(budget_bytes, found.peak_bytes) / max(1, plain))
    return f"{100 * share:.0f}%", Budget(share=share)


@dataclass(frozen=True)
class PeakBar:
    """A bar for one step's peak (``size``, in bytes). ``how``: ``measured`` or ``predicted``, in words."""

    name: str
    size: int
    how: str


@dataclass(frozen=True)
class ExportCard:
    """What the dialog shows after an export. ``missed``: broken promises, and what to do about them.
    ``lines``: Python code that uses the exported step; ``lines_do``: what that code does, in words."""

    missed: tuple[str, ...]
    bars: tuple[PeakBar, ...]
    budget_bytes: int
    facts: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    lines: tuple[str, ...]
    lines_do: str


def export_card(report: Mapping[str, Any], directory: Path) -> ExportCard:
    """``report``: as in a file. ``directory``: the folder that was written."""
    runner, budget = runner_of(report.get("settings", {})), report["budget_bytes"]
    by = "predicted by XLA" if runner.compiled else "predicted"
    plain, written = _bars(report["peak_bytes"], by, may_fit=not runner.metered)
    next_step = (f"try a budget of {format_bytes_enough(written.size)}",) if written.size > budget else ()
    what = "Gradients" if _of_gradients(report) else "Results"
    return ExportCard(
        tuple(map(as_sentence, (*report["problems"], *next_step))),
        (plain, written),
        budget,
        (
            ("Peak", _peaks(report["peak_bytes"], by)),
            ("A step", _time(report["seconds"])),
            (what, _compared(report)),
            ("Written", f"{directory}, {format_bytes(_size(directory))}"),
        ),
        tuple(map(as_sentence, report.get("notes", ()))),
        _python(report, runner, directory.absolute()),
        "load it" if runner.backend == JAX else "train with it",  # only its user knows a JAX step's arguments
    )


def _bars(peak: Mapping[str, Any], by: str, *, may_fit: bool) -> tuple[PeakBar, PeakBar]:
    """Bars of the plain and the exported step. ``by`` labels peaks that were not measured."""
    plain, measured = peak["plain_measured"], peak["measured"]
    largest = {how: max(peak.get(name) or 0 for name in (how, f"reloaded_{how}")) for how in _HOW}
    # On a metered device the plain step is measured unless it does not fit.
    before = PeakBar("Plain step", peak["plain_predicted"], by if may_fit else f"{by}, does not fit")
    return (
        before if plain is None else PeakBar("Plain step", plain, "measured"),
        PeakBar("Exported step", largest["predicted"], by)
        if measured is None
        else PeakBar("Exported step", largest["measured"], "measured"),
    )


def _peaks(peak: Mapping[str, int | None], by: str) -> str:
    named = {
        "predicted": by,
        "measured": "measured",
        "reloaded_predicted": f"{by} after reloading",
        "reloaded_measured": "measured after reloading",
    }
    sizes = {how: peak.get(name) for name, how in named.items()}
    return ", ".join(f"{format_bytes(size)} {how}" for how, size in sizes.items() if size is not None)


def _time(seconds: Mapping[str, float | None]) -> str:
    after, before, predicted = (seconds[name] for name in ("measured", "plain_measured", "predicted"))
    expected = "" if predicted is None else f"; predicted {format_seconds(predicted)}"
    if after is None:
        return f"not measured{expected}"
    beside = "the plain step was not measured"
    if before is not None:
        beside = f"the plain step {format_seconds(before)}, so {format_overhead(after, before)}"
    return f"{format_seconds(after)} measured, {beside}{expected}"


def _of_gradients(report: Mapping[str, Any]) -> bool:
    return bool(report["gradients"].get("compared", "gradients") == "gradients")


def _compared(report: Mapping[str, Any]) -> str:
    gradients = report["gradients"]
    if gradients["equal"] is None:
        return "not compared"
    batch, worst = gradients.get("batch_size"), gradients.get("exact_worst")
    good = "✗ not the plain step's"
    if gradients["bitwise"]:
        good = "✓ bitwise equal to the plain step's"
    elif gradients["equal"]:
        most = f": at most {worst['relative_error']:.1e} apart ({worst['name']})" if worst else ""
        good = f"✓ equal to rounding{most}"
    after = "" if _of_gradients(report) else f" after {plural(gradients['steps'], 'step')}"
    at = "" if batch in (None, report["batch_size"]) else f" at batch {batch}, where the plain step fits"
    return f"{good}{after}{at}"


def _size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def _python(report: Mapping[str, Any], runner: Runner, directory: Path) -> tuple[str, ...]:
    if runner.backend == JAX:
        donated = tuple(json.loads((directory / "export.json").read_bytes())["donate_argnums"])
        step = directory / "step.jax-export"
        return (
            "import jax, jax.export, pathlib",
            f"read = jax.export.deserialize(pathlib.Path({str(step)!r}).read_bytes())",
            f"step = jax.jit(read.call, donate_argnums={donated})  # it takes what export.json says",
        )
    if runner.backend == TORCH:
        return (
            f"import sys; sys.path.insert(0, {str(directory)!r}); from step import load, step",
            f"state, batch = load({str(directory / 'tensors.pt')!r})  # parameters and buffers by name",
            "step(state, *batch)[0].backward()  # train_example.py trains some steps",
        )
    batches = f"batches of {report['batch_size']}" if report["batch_size"] else "batches"
    return (
        "import tensorflow as tf",
        f"model = tf.saved_model.load({str(directory / 'saved_model')!r})",
        f"for batch in data: found = model.train_step(*batch)  # data: your {batches}, inputs then labels",
    )


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
