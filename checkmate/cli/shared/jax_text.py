"""What ``run``, ``export`` and ``verify`` print of a step of JAX.

Each number says whether it is XLA's, measured or predicted.
"""

from __future__ import annotations

from pathlib import Path

from checkmate.ir.report import VerificationReport
from checkmate.machine.supported import JAX
from checkmate.units import format_bytes, format_overhead, format_seconds

_XLA = "read from XLA's compiled step"


def is_of_jax(found: VerificationReport) -> bool:
    """Return whether a report is of a step of JAX."""
    return found.settings.get("framework") == JAX


def jax_report_text(found: VerificationReport, directory: Path | None) -> str:
    """Return the report in words."""
    peak, plain = found.peak_bytes, _bytes(found.peak_bytes["plain_predicted"])
    batch = f", batch {found.batch_size}" if found.batch_size else ""
    promised = "as promised" if found.ok else "NOT as promised"
    lines = [
        f"{found.model}{batch}, on {found.device}, by JAX: {promised}",
        *(f"  problem: {problem}" for problem in found.problems),
        f"  budget         {format_bytes(found.budget_bytes)}",
        f"  peak           {_bytes(peak['predicted'])}; plain step {plain} ({_XLA})",
    ]
    if peak.get("reloaded_predicted") is not None:
        lines.append(f"  after reload   {_bytes(peak['reloaded_predicted'])} ({_XLA}, with JAX's defaults)")
    lines += [
        *_time_lines(found),
        *_result_lines(found),
        f"  steps          {found.steps}, {found.recomputations} of them recomputed",
        *(f"  note: {note}" for note in found.notes),
    ]
    if directory is not None:
        lines.append(f"wrote {directory}: step.jax-export is for jax.export.deserialize; see export.json")
    return "\n".join(lines)


def _time_lines(found: VerificationReport) -> list[str]:
    """Return how long a step takes, and how much more was predicted."""
    after, before = found.seconds["measured"], found.seconds["plain_measured"]
    if after is None:
        return []
    if before is None:
        return [f"  measured time  {format_seconds(after)} a step; the plain step does not fit the device"]
    predicted = 100 * float(found.settings["predicted_overhead"])
    return [
        f"  measured time  {format_seconds(after)} a step; plain step {format_seconds(before)}, so "
        f"{format_overhead(after, before)} (predicted {predicted:+.1f} % by counts)"
    ]


def _result_lines(found: VerificationReport) -> list[str]:
    """Return how far what the step returns is from the plain step's."""
    results, loss = found.gradients, found.loss
    if not results["count"]:
        return ["  results        not compared"]
    same = "DIFFERENT"
    if results["equal"] is None:
        same = "not compared"
    elif results["equal"]:
        same = "bitwise equal to the plain step's" if results["bitwise"] else "equal, but for rounding"
    worst, apart = results["worst_of_largest"], "no difference"
    if worst["error"]:
        most = f"at most {worst['error']:.1e} of an array ({worst['name']})"
        apart = f"{results['overall_relative_error']:.1e} apart overall, {most}"
    lines = [f"  results        {same}, equation by equation; compiled by XLA {apart} (measured)"]
    if loss["plain"] is not None and loss["optimized"] is not None:
        lines.append(f"  loss           {loss['optimized']:.6g} (plain {loss['plain']:.6g}), measured")
    return lines


def _bytes(count: int | None) -> str:
    return "not known" if count is None else format_bytes(count)
