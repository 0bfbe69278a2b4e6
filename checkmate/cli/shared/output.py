"""Print what commands found: facts as JSON-able data, and words."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from checkmate.cli.shared.jax_text import is_of_jax, jax_report_text
from checkmate.errors import ExitCode
from checkmate.ir.graph import Graph
from checkmate.ir.report import VerificationReport
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.machine.cost_origin import (
    cache_facts,
    cost_text,
    elsewhere_words,
    is_other_pace,
    origin_words,
    pace_words,
    reading_words,
)
from checkmate.request import Target
from checkmate.solvers.constraints import list_assumptions
from checkmate.terminal import complain as complain
from checkmate.terminal import emit as emit
from checkmate.text_table import aligned_lines
from checkmate.units import format_bytes, format_bytes_up, format_overhead, format_seconds, plural

_EXIT_CODES = {
    SolveStatus.OPTIMAL: ExitCode.DONE,
    SolveStatus.FEASIBLE: ExitCode.DONE,
    SolveStatus.INFEASIBLE: ExitCode.INFEASIBLE,
    SolveStatus.LIMIT: ExitCode.NO_SCHEDULE,
    SolveStatus.CANCELLED: ExitCode.INTERRUPTED,
    SolveStatus.FAILED: ExitCode.UNEXPECTED,
}


def show(as_json: bool, facts: Mapping[str, Any], text: str) -> None:
    """Print ``facts`` as one JSON object, or ``text``."""
    emit(json.dumps(facts, ensure_ascii=False, default=str) if as_json else text)


def solve_exit_code(status: SolveStatus) -> ExitCode:
    """Return the exit code for a solve with this status."""
    return _EXIT_CODES[status]


def graph_facts(graph: Graph, *, detailed: bool = False) -> dict[str, Any]:
    """Return counts, the ends of the budget range and the device.

    ``detailed`` adds the reachable minimum and what is alive at the peak.
    """
    from checkmate.planning import graph_info

    return graph_info.graph_info(graph).to_json() if detailed else graph_info.graph_facts(graph)


def target_words(graph: Graph) -> str:
    """Return that XLA is to compile the step, or nothing."""
    return ", for XLA" if graph.metadata.get("target") == Target.XLA else ""


def profile_text(graph: Graph, path: Path) -> str:
    """Return what ``profile`` prints."""
    facts = graph_facts(graph)
    batch = f", batch {graph.batch_size}" if graph.batch_size else ""
    notes = [f"note: {note}" for note in graph.metadata.get("notes", [])]
    measured = graph.metadata.get("profile", {})
    how = origin_words(graph)
    cache = cache_facts(graph)
    if cache.get("problem"):
        notes.append(f"note: {cache['problem']}")
    notes += [f"note: {words}" for words in (reading_words(graph), pace_words(graph)) if words]
    if measured:
        how += f", median of {plural(measured['runs'], 'run')}, {plural(measured['noisy_ops'], 'noisy op')}"
    return "\n".join(
        [
            f"{graph.name}: {graph.n} ops made from {_made_from(graph)}{batch}, on "
            f"{graph.device.name if graph.device else 'no device'}{target_words(graph)}",
            f"  keep everything: {format_bytes(facts['keep_everything_peak_bytes'])} (requested bytes, "
            f"predicted), {format_bytes(graph.fixed_bytes)} of it fixed",
            f"  one step:        {cost_text(graph, graph.base_cost)} ({how})",
            *_cache_lines(cache),
            *(f"  {note}" for note in notes),
            f"wrote {path}",
        ]
    )


def _made_from(graph: Graph) -> str:
    """Return what the graph was folded from, and how much of it."""
    if "jax_equations" in graph.metadata:
        return f"{graph.metadata['jax_equations']} equations of JAX"
    return f"{graph.metadata.get('tensorflow_ops', '?')} TensorFlow ops"


def _cache_lines(cache: Mapping[str, Any]) -> list[str]:
    """Return a line on how many costs came from the cache. Empty where no cache was used."""
    if not cache:
        return []
    advice = "; --refresh measures all again" if cache["ops"] else ""
    return [f"  costs of ops:    {cache['ops']} from the cache, {cache['measured_now']} measured now{advice}"]


def elsewhere_note(graph: Graph) -> str:
    """Return what it means that the graph is another machine's. Empty where it is this machine's."""
    words = elsewhere_words(graph)
    return (
        f"{words}: seconds and scratch memory may differ; export and verify work both out again"
        if words
        else ""
    )


def info_text(graph: Graph, facts: Mapping[str, Any]) -> str:
    """Return what ``info`` prints."""
    device = graph.device
    reached, bound = facts["minimum_reached_bytes"], facts["minimum_bound_bytes"]
    least = f"{format_bytes(reached)} reached by the fast heuristic"
    least += " (proved: no schedule can be smaller)" if facts["minimum_proved"] else ""
    peak = max(1, facts["keep_everything_peak_bytes"] - graph.fixed_bytes)
    lines = [
        f"{graph.name}: {graph.n} ops, {graph.m} values"
        + (f", batch {graph.batch_size}" if graph.batch_size else "")
        + (f", profiled on {device.name}" if device and device.kind in ("cpu", "gpu") else "")
        + target_words(graph),
        "  phases            " + ", ".join(f"{count} {phase}" for phase, count in facts["phases"].items()),
        f"  one step          {cost_text(graph, graph.base_cost)} ({origin_words(graph)})",
        *(f"  note              {words}" for words in (elsewhere_note(graph), reading_words(graph)) if words),
        f"  keep everything   {format_bytes(facts['keep_everything_peak_bytes'])} (peak while "
        f"{facts['peak_op']!r} runs)",
        f"  fixed             {format_bytes(graph.fixed_bytes)}"
        + (
            f" ({', '.join(f'{name} {format_bytes(size)}' for name, size in graph.fixed.items())})"
            if graph.fixed
            else ""
        ),
        f"  least possible    at least {format_bytes(bound)} (needed by {facts['minimum_bound_op']!r}); "
        f"{least}",
        "  also alive at the peak, by layer:" if graph.fixed_bytes else "  alive at the peak, by layer:",
    ]
    for name, size in list(facts["alive_at_peak_by_layer"].items())[:12]:
        lines.append(f"    {format_bytes(size):>9}  {100 * size / peak:4.0f} %  {name}")
    rest = list(facts["alive_at_peak_by_layer"].values())[12:]
    if rest:
        lines.append(
            f"    {format_bytes(sum(rest)):>9}  {100 * sum(rest) / peak:4.0f} %  in {len(rest)} more layers"
        )
    return "\n".join(lines)


def solve_text(graph: Graph, result: SolveResult, path: Path | None) -> str:
    """Return what ``solve`` prints."""
    head = f"{graph.name} within {format_bytes(result.budget_bytes)}: {_status(result)}"
    if result.schedule is None:
        said = [f"  {line}" for line in (result.message, _advice(result)) if line]
        return "\n".join([head, *said])
    assert result.cost is not None and result.peak_bytes is not None
    lines = [
        head,
        f"  peak      {format_bytes(result.peak_bytes)} (requested bytes, predicted)",
        f"  cost      {cost_text(graph, result.cost)}, {format_overhead(result.cost, result.base_cost)} "
        f"over computing everything once (costs of ops: {origin_words(graph)})",
        f"  steps     {len(result.schedule.steps)}, {result.schedule.recomputations} of them recomputed",
        *assumption_lines(result),
        *([f"  {result.message}"] if result.message else []),
        f"  solved by {result.solver} in {format_seconds(result.solve_seconds)}",
    ]
    if path is not None:
        lines.append(f"wrote {path}")
    return "\n".join(lines)


def _status(result: SolveResult) -> str:
    if result.status is SolveStatus.OPTIMAL:
        return "optimal under assumptions, proved" if result.assumptions else "optimal, proved"
    if result.status is SolveStatus.FEASIBLE:
        if result.gap is None:
            return "a schedule; no bound says how good it is"
        best = "best possible under assumptions" if result.assumptions else "best possible"
        return f"a schedule, at most {100 * (result.above_best or result.gap):.2f} % above the {best}"
    return {
        SolveStatus.INFEASIBLE: "infeasible under assumptions, proved"
        if result.assumptions
        else "infeasible, proved",
        SolveStatus.LIMIT: "no schedule found; one may exist",
        SolveStatus.CANCELLED: "cancelled before a schedule was found",
    }.get(result.status, "the solver failed")


def assumption_lines(result: SolveResult) -> list[str]:
    """Return the line on the bound's assumptions, if it has any."""
    return [f"  assuming  {list_assumptions(result.assumptions)}"] if result.assumptions else []


def _advice(result: SolveResult) -> str:
    """Return what to do about a solve without a schedule."""
    needed = result.statistics.get("needed_bytes")
    drop = "drop a constraint, " if result.assumptions else ""
    if needed is not None:
        return f"{drop}raise the budget to at least {format_bytes_up(needed)}, or use a smaller batch"
    return {
        SolveStatus.INFEASIBLE: f"{drop}raise the budget, or use a smaller batch",
        SolveStatus.LIMIT: "raise the budget, give --time-limit more seconds, or try another --solver",
    }.get(result.status, "")


_KERNELS = {"onednn": " with oneDNN's kernels", "eigen": " with Eigen's kernels"}


def _kernels(found: VerificationReport) -> str:
    if _for_xla(found):
        return ", compiled by XLA"
    return _KERNELS.get(str(found.settings.get("kernels", "")), "")


def _for_xla(found: VerificationReport) -> bool:
    return found.settings.get("target") == Target.XLA


def _python() -> str:
    """Return how a shell in this folder starts the Python that runs this program."""
    found = shutil.which("python")
    if found and os.path.dirname(found) == os.path.dirname(sys.executable):
        return "python"
    return shlex.quote(min(sys.executable, os.path.relpath(sys.executable), key=len))


def report_text(found: VerificationReport, directory: Path | None) -> str:
    """Return what ``verify``, ``export`` and ``run`` print."""
    if is_of_jax(found):
        return jax_report_text(found, directory)
    peak, seconds = found.peak_bytes, found.seconds
    plain = _bytes(peak["plain_measured"])
    if peak["plain_measured"] is None:
        plain = f"does not fit (predicted {_bytes(peak['plain_predicted'])})"
    elif _for_xla(found):
        plain += f" (XLA says {_bytes(peak['plain_predicted'])})"
    lines = [
        f"{found.model}, batch {found.batch_size}, on {found.device}{_kernels(found)}: "
        f"{'as promised' if found.ok else 'NOT as promised'}",
        *(f"  problem: {problem}" for problem in found.problems),
        f"  budget         {format_bytes(found.budget_bytes)}",
        f"  measured peak  {_bytes(peak['measured'])} ({'XLA says' if _for_xla(found) else 'predicted'} "
        f"{_bytes(peak['predicted'])}); plain step {plain}",
    ]
    if peak.get("reloaded_measured") is not None:
        lines.append(
            f"  after reload   {_bytes(peak['reloaded_measured'])}, in a process with TensorFlow alone"
        )
    lines += [
        f"  measured time  {_seconds(seconds['measured'])} a step (predicted {_predicted(seconds)}); "
        f"plain step {_seconds(seconds['plain_measured'])}",
        *_gradient_lines(found),
        f"  steps          {found.steps}, {found.recomputations} of them recomputed",
        *(f"  note: {note}" for note in found.notes),
    ]
    if directory is not None:
        lines.append(
            f"wrote {directory}: try  {_python()} {shlex.quote(str(directory / 'train_example.py'))}"
        )
    return "\n".join(lines)


def _gradient_lines(found: VerificationReport) -> list[str]:
    """Return how what was compared differs from the plain step's.

    That is the gradients, or of a step of the user's own what it comes to. The batch is named where it is not
    the step's own.
    """
    gradients, loss = found.gradients, found.loss
    own = gradients.get("compared", "gradients") != "gradients"
    if gradients["equal"] is None:
        return [f"  {'results  ' if own else 'gradients'}      not compared"]
    same = (
        "bitwise equal to the plain step's"
        if gradients["bitwise"]
        else "equal"
        if gradients["equal"]
        else "DIFFERENT"
    )
    elsewhere = gradients.get("batch_size") not in (None, found.batch_size)
    at = f" (at batch {gradients['batch_size']})" if elsewhere else ""
    head = f"  gradients      {same}{at}"
    largest = "the step's largest gradient"
    if own:
        head = f"  results        what the step returns and its variables: {same} after "
        head += f"{plural(gradients['steps'], 'step')}{at}"
        largest = "the largest of them"
    worst = gradients["worst_of_largest"]
    apart = (
        f"{gradients['overall_relative_error']:.1e} apart overall, at most {worst['error']:.1e} of {largest} "
    )
    apart += f"({worst['name']})"
    if own and not worst["error"]:
        apart = "no difference"
    same_kernels, usual = "with the same kernels", "with default kernels"
    if _for_xla(found):
        same_kernels, usual = "with the same kernels, op by op", "compiled by XLA"
    lines = [f"{head} {same_kernels}; {usual} {apart}"]
    if loss["optimized"] is not None and loss["plain"] is not None:
        lines.append(f"  loss           {loss['optimized']:.6g} (plain {loss['plain']:.6g}){at}")
    return lines


def listing_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of names, availability and descriptions."""
    cells = [(str(row["name"]), f"{_unavailable(row)}{row['description']}") for row in rows]
    return "\n".join(aligned_lines(cells, left=(0, 1)))


def _unavailable(row: Mapping[str, Any]) -> str:
    return "" if row.get("available", True) else f"(not available: {row['why']}) "


def _bytes(count: int | None) -> str:
    return "not measured" if count is None else format_bytes(count)


def _predicted(seconds: Mapping[str, float | None]) -> str:
    """Return the predicted seconds for today.

    Where the machine's speed was different on the day of the profile, that prediction is returned too.
    """
    profiled, today = seconds.get("predicted"), seconds.get("predicted_today")
    if profiled is None or today is None or not is_other_pace(today / profiled if profiled else 1.0):
        return _seconds(profiled if today is None else today)
    return f"{_seconds(profiled)} as profiled, {_seconds(today)} scaled by today's plain step"


def _seconds(seconds: float | None) -> str:
    return "not known" if seconds is None else format_seconds(seconds)
