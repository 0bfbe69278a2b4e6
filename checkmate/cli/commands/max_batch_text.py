from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from checkmate.largest.batch import MaxBatch, forward_cost
from checkmate.largest.input_size import MaxInput
from checkmate.largest.measured import MeasuredSize
from checkmate.machine.cost_origin import cost_text, origin_words
from checkmate.units import format_bytes, format_overhead, format_seconds, plural


def facts(found: MaxBatch, measured: MeasuredSize) -> dict[str, Any]:
    result, graph = found.result, found.graph
    assert result.cost is not None
    forward = forward_cost(graph)
    return {
        **answer_facts(found),
        "batch": found.batch,
        "upper_bound_batch": found.upper_batch,
        "extrapolated_from_batch": found.scaling.batch,
        "extrapolation": found.scaling.note(),
        "rule": _rule(found),
        "extra_forward_passes": (result.cost - result.base_cost) / forward if forward > 0 else None,
        "plain_batch": found.plain_batch,
        "baselines": dict(found.baselines),
        "baselines_out_of_time": sorted(found.unfinished),
        "solver": result.solver,
        "probes": found.probes,
        "measured": measured_facts(measured, "batch"),
    }


def answer_facts(found: MaxBatch | MaxInput) -> dict[str, Any]:
    result, graph = found.result, found.graph
    return {
        "format": "checkmate-max-batch",
        "version": 1,
        "name": graph.name,
        "proved": found.proved,
        "budget_bytes": result.budget_bytes,
        "peak_bytes": result.peak_bytes,
        "fixed_bytes": graph.fixed_bytes,
        "max_overhead": None if found.max_overhead == float("inf") else found.max_overhead,
        "cost": result.cost,
        "base_cost": result.base_cost,
        "cost_limit": found.cost_limit,
        "cost_unit": graph.cost_unit.value,
        "overhead": result.overhead,
        "seconds": found.seconds,
        "cancelled": found.cancelled,
        "graph_fingerprint": graph.fingerprint,
        "steps": result.require_schedule().steps.tolist(),
    }


def text(found: MaxBatch, measured: MeasuredSize, files: Sequence[Path]) -> str:
    result, graph = found.result, found.graph
    assert result.cost is not None and result.peak_bytes is not None
    extra = format_overhead(result.cost, result.base_cost)
    proved = (
        "proved largest"
        if found.proved
        else f"proved: no batch above {found.upper_batch} fits; sizes in between are open"
    )
    if found.cancelled:
        proved += "; interrupted"
    rows = [("keep everything, given order", f"{found.plain_batch:,}" if found.plain_batch else "none")]
    rows += [(name, _baseline(found, name)) for name in found.baselines]
    rows += [("checkmate", f"{found.batch:,}"), ("proved limit", f"{found.upper_batch:,}")]
    return "\n".join(
        [
            f"{graph.name} within {format_bytes(result.budget_bytes)}, {_rule(found)}: batch "
            f"{found.batch:,} ({proved})",
            f"  {found.scaling.note()}",
            *(f"  {name:<30}{batch:>16}" for name, batch in rows),
            f"  peak      {format_bytes(result.peak_bytes)} (requested bytes, predicted), "
            f"{format_bytes(graph.fixed_bytes)} of it fixed",
            f"  cost      {cost_text(graph, result.cost)}, {extra} over computing everything once "
            f"({origin_words(graph)})",
            f"  solved by {result.solver} in {format_seconds(found.seconds)}, "
            f"{plural(found.probes, 'batch size')} tried",
            *measured_lines(measured, "batch"),
            *(f"wrote {path}" for path in files),
        ]
    )


def _baseline(found: MaxBatch, name: str) -> str:
    batch = found.baselines[name]
    if name in found.unfinished:
        return "out of time" if batch is None else f"at least {batch:,}"
    return "no more" if batch is None else f"{batch:,}"


def _rule(found: MaxBatch) -> str:
    if found.max_overhead is None:
        share = found.cost_limit / found.result.base_cost - 1 if found.result.base_cost > 0 else 0.0
        return f"at most one extra forward pass (+{100 * share:.1f} %)"
    if found.max_overhead == float("inf"):
        return "at any cost"
    return f"at most {100 * found.max_overhead:g} % extra cost"


def measured_facts(found: MeasuredSize, unit: str, say: Callable[[int], Any] = int) -> dict[str, Any]:
    """``unit``: the name of a size; ``say`` makes its value."""
    best = found.fitting
    told: dict[str, Any] = {
        unit: None if best is None else say(best.size),
        "why_not": found.note or None,
        "tried": [
            {
                unit: say(one.size),
                "peak_bytes": one.peak_bytes,
                "predicted_bytes": one.predicted_bytes,
                "fits": not one.why,
                "why_not": one.why or None,
            }
            for one in found.tried
        ],
        "expected_seconds": found.estimate_s,
        "measuring_seconds": found.seconds,
        "cancelled": found.cancelled,
    }
    if best is None or best.graph is None or best.result is None:
        return told
    return told | {
        "peak_bytes": best.peak_bytes,
        "requested_peak_bytes": best.requested_bytes,
        "seconds": best.seconds,
        "overhead": best.result.overhead,
        "device": best.device,
        "meter": best.meter,
        "graph_fingerprint": best.graph.fingerprint,
        "steps": best.result.require_schedule().steps.tolist(),
    }


def measured_lines(found: MeasuredSize, unit: str, say: Callable[[int], str] = str) -> list[str]:
    best = found.fitting
    missed = [f"  tried     {unit} {say(one.size)}: {one.why}" for one in found.tried if one.why]
    if best is None or best.result is None or best.result.cost is None or best.graph is None:
        return [
            *missed,
            f"  not measured: {found.note}"
            if not found.tried
            else f"  no {unit} that fits was measured: {found.note}",
        ]
    extra = format_overhead(best.result.cost, best.graph.base_cost)
    return [
        *missed,
        f"  measured  {unit} {say(best.size)}: peak {format_bytes(best.peak_bytes or 0)} on the allocator's "
        f"meter ({best.meter}), {format_bytes(best.requested_bytes or 0)} of it requested; "
        f"{format_seconds(best.seconds or 0.0)} a step; {extra} (analytic); measuring took "
        f"{format_seconds(found.seconds)}",
        *([f"  a larger {unit} may fit: {found.note}"] if found.note else []),
    ]
