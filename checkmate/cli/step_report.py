"""What ``profile``, ``run``, ``export`` and ``verify`` print."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from checkmate.cli.output import graph_facts, target_words
from checkmate.ir import Graph, VerificationReport
from checkmate.machine.cost_origin import (
    cache_facts,
    cost_text,
    is_other_pace,
    origin_words,
    pace_words,
    reading_words,
)
from checkmate.runner import TORCH
from checkmate.units import format_bytes, format_overhead, format_seconds, plural

_XLA = "read from XLA's compiled step"


def profile_text(graph: Graph, path: Path) -> str:
    facts = graph_facts(graph)
    batch = f", batch {graph.batch_size}" if graph.batch_size else ""
    notes = [f"note: {note}" for note in graph.origin.notes]
    measured = graph.origin.profile
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
    if graph.origin.jax_equations:
        return f"{graph.origin.jax_equations} equations of JAX"
    if graph.origin.torch_nodes:
        return f"{graph.origin.torch_nodes} nodes of PyTorch's graph"
    return f"{graph.origin.tensorflow_ops or '?'} TensorFlow ops"


def _cache_lines(cache: Mapping[str, Any]) -> list[str]:
    if not cache:
        return []
    advice = "; --refresh measures all again" if cache["ops"] else ""
    return [f"  costs of ops:    {cache['ops']} from the cache, {cache['measured_now']} measured now{advice}"]


def report_text(found: VerificationReport, directory: Path | None) -> str:
    metered = found.runner.metered
    batch = f", batch {found.batch_size}" if found.batch_size or metered else ""
    return "\n".join(
        [
            f"{found.model}{batch}, on {found.device}{_run_by(found)}: "
            f"{'as promised' if found.ok else 'NOT as promised'}",
            *(f"  problem: {problem}" for problem in found.problems),
            f"  budget         {format_bytes(found.budget_bytes)}",
            *(_measured_lines(found) if metered else _compiled_lines(found)),
            f"  steps          {found.steps}, {found.recomputations} of them recomputed",
            *(f"  note: {note}" for note in found.notes),
            *([] if directory is None else [f"wrote {directory}: {_how_to_train(found, directory)}"]),
        ]
    )


def _run_by(found: VerificationReport) -> str:
    if found.runner.by:
        return f", {found.runner.by}"
    kernels = {"onednn": " with oneDNN's kernels", "eigen": " with Eigen's kernels"}
    return kernels.get(str(found.settings.get("kernels", "")), "")


def _how_to_train(found: VerificationReport, directory: Path) -> str:
    return found.runner.loading or f"try  {_this_python()} {shlex.quote(str(directory / 'train_example.py'))}"


def _this_python() -> str:
    """Return the command that starts this Python from a shell in this folder."""
    found = shutil.which("python")
    if found and os.path.dirname(found) == os.path.dirname(sys.executable):
        return "python"
    return shlex.quote(min(sys.executable, os.path.relpath(sys.executable), key=len))


def _measured_lines(found: VerificationReport) -> list[str]:
    peak = {name: format_bytes(size, "not measured") for name, size in found.peak_bytes.items()}
    seconds = {name: format_seconds(each, none="not known") for name, each in found.seconds.items()}
    plain, by = peak["plain_measured"], "XLA says" if found.runner.compiled else "predicted"
    if found.peak_bytes["plain_measured"] is None:
        plain = f"does not fit (predicted {peak['plain_predicted']})"
    elif found.runner.compiled:
        plain += f" (XLA says {peak['plain_predicted']})"
    lines = [f"  measured peak  {peak['measured']} ({by} {peak['predicted']}); plain step {plain}"]
    if found.peak_bytes.get("reloaded_measured") is not None:
        lines.append(
            f"  after reload   {peak['reloaded_measured']}, in a process with {found.runner.title} alone"
        )
    return [
        *lines,
        f"  measured time  {seconds['measured']} a step (predicted {_predicted(found.seconds)}); "
        f"plain step {seconds['plain_measured']}",
        *_gradient_lines(found),
    ]


def _gradient_lines(found: VerificationReport) -> list[str]:
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
    same_kernels, usual = " with the same kernels", "with default kernels "
    if found.runner.compiled:
        same_kernels, usual = " with the same kernels, op by op", "compiled by XLA "
    if found.runner.backend == TORCH:  # one kernel for each op, in every process
        same_kernels = usual = ""
    lines = [f"{head}{same_kernels}; {usual}{apart}"]
    if loss["optimized"] is not None and loss["plain"] is not None:
        lines.append(f"  loss           {loss['optimized']:.6g} (plain {loss['plain']:.6g}){at}")
    return lines


def _predicted(seconds: Mapping[str, float | None]) -> str:
    """Say both predictions where the machine's speed has changed since the profile."""
    profiled, today = seconds.get("predicted"), seconds.get("predicted_today")
    if profiled is None or today is None or not is_other_pace(today / profiled if profiled else 1.0):
        return format_seconds(profiled if today is None else today, none="not known")
    return f"{format_seconds(profiled)} as profiled, {format_seconds(today)} scaled by today's plain step"


def _compiled_lines(found: VerificationReport) -> list[str]:
    peak = {name: format_bytes(size, "not known") for name, size in found.peak_bytes.items()}
    lines = [f"  peak           {peak['predicted']}; plain step {peak['plain_predicted']} ({_XLA})"]
    if found.peak_bytes.get("reloaded_predicted") is not None:
        lines.append(f"  after reload   {peak['reloaded_predicted']} ({_XLA}, with JAX's defaults)")
    return [*lines, *_time_lines(found), *_result_lines(found)]


def _time_lines(found: VerificationReport) -> list[str]:
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
    results, loss = found.gradients, found.loss
    if not results["count"]:
        return ["  results        not compared"]
    same = "DIFFERENT"
    if results["equal"] is None:
        same = "not compared"
    elif results["equal"]:
        same = "bitwise equal to the plain step's" if results["bitwise"] else "equal, but for rounding"
    worst, apart = results["worst"], "no difference"
    if worst["relative_error"]:
        most = f"at most {worst['relative_error']:.1e} of an array ({worst['name']})"
        apart = f"{results['overall_relative_error']:.1e} apart overall, {most}"
    lines = [f"  results        {same}, equation by equation; compiled by XLA {apart} (measured)"]
    if loss["plain"] is not None and loss["optimized"] is not None:
        lines.append(f"  loss           {loss['optimized']:.6g} (plain {loss['plain']:.6g}), measured")
    return lines
