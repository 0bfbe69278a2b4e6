"""Measure the last step of ``max-batch``; describe the result."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from checkmate.cli.shared import options as cli_options
from checkmate.errors import UsageError
from checkmate.progress import Cancelled, Report
from checkmate.units import format_bytes, format_overhead, format_seconds

if TYPE_CHECKING:
    from checkmate.ir.graph import Graph
    from checkmate.largest.batch import MaxBatch
    from checkmate.largest.input_size import MaxInput
    from checkmate.largest.measured import MeasuredSize, SizeSteps

_LIMIT_S = 120.0
_QUICK = 224  # greatest height in pixels of the step that is timed first


def add_measuring(parser: argparse.ArgumentParser) -> None:
    """Add --measure and --measure-limit."""
    add = parser.add_argument_group(
        "measuring",
        "A model's step is traced at the largest size found, and run in a fresh process. The peak of its "
        "allocator is compared with the budget. If it is over, smaller sizes are tried.",
    ).add_argument
    add(
        "--measure",
        choices=("auto", "always", "never"),
        default="auto",
        help="auto (default): measure if the device has enough free memory, and if it should take no longer "
        "than --measure-limit; always: measure without these checks; never: do not measure",
    )
    add(
        "--measure-limit",
        type=cli_options.seconds,
        default=_LIMIT_S,
        metavar="SECONDS",
        help=f"seconds for all measuring, unless --measure always is given (default {_LIMIT_S:g})",
    )


def require_measurable(options: argparse.Namespace, *, a_model: bool) -> None:
    """Raise where --measure always asks for something impossible.

    Raises:
        UsageError: the input is no model, or has fixed bytes that are not its own.
    """
    why = why_not(options, a_model=a_model)
    if options.measure == "always" and why:
        raise UsageError(f"{options.model} cannot be measured: {why}", hint="leave --measure out")


def why_not(options: argparse.Namespace, *, a_model: bool) -> str:
    """Return why nothing is to be measured, or an empty string."""
    from checkmate.largest.of_model import why_not_measured

    return why_not_measured(a_model=a_model, measure=options.measure, fixed_bytes=options.fixed)


def batches(options: argparse.Namespace, found: MaxBatch) -> SizeSteps:
    """Return the batches to measure, from the largest found downwards."""
    from checkmate.largest.of_model import batches_below

    return batches_below(cli_options.model_request(options), found)


def inputs(options: argparse.Namespace, found: MaxInput, aspect: tuple[int, int], small: Graph) -> SizeSteps:
    """Return the heights to measure, from the largest found downwards.

    Heights are in steps of pixels. ``small`` is the step at ``quick_size``.
    """
    from checkmate.largest.input_size import STEP, size_at
    from checkmate.largest.measured import SizeSteps

    shape = options.input_shape
    channels = 3 if shape is None else shape[2]
    request = replace(cli_options.model_request(options), batch_size=found.graph.batch_size or 1)
    cost = found.result.cost or found.result.base_cost
    return SizeSteps(
        found.size[0] // STEP,
        lambda level: replace(request, input_shape=(*size_at(level, aspect), channels)),
        lambda level, share: math.floor(level * math.sqrt(share)),
        replace(request, input_shape=(*quick_size(found.size, aspect), channels)),
        small.fixed_bytes,
        cost / small.base_cost if small.base_cost > 0 else 1.0,
    )


def quick_size(found: tuple[int, int], aspect: tuple[int, int]) -> tuple[int, int]:
    """Return the size of the step that is timed first. It is small, and no larger than the size found."""
    from checkmate.largest.input_size import STEP, size_at

    return size_at(max(1, min(found[0], _QUICK) // STEP), aspect)


def measured(
    options: argparse.Namespace, sizes: SizeSteps, steps: list[int], report: Report, cancelled: Cancelled
) -> MeasuredSize:
    """Measure steps until one fits; return what was measured.

    ``steps``: the schedule known at the largest size.
    """
    from checkmate.largest.measured import measure_largest
    from checkmate.solvers.problem import SolveOptions

    return measure_largest(
        sizes,
        options.budget,
        steps,
        max_overhead=options.max_overhead,
        always=options.measure == "always",
        limit_s=options.measure_limit,
        options=SolveOptions(workers=options.workers, seed=options.seed),
        report=report,
        cancelled=cancelled,
    )


def facts(found: MeasuredSize, unit: str, say: Callable[[int], Any] = int) -> dict[str, Any]:
    """Return the measurement as JSON-able data.

    ``unit``: the name of a size. ``say``: makes a size's value. Bytes are on the allocator's meter; seconds
    are of one warm step.
    """
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


def lines(found: MeasuredSize, unit: str, say: Callable[[int], str] = str) -> list[str]:
    """Return the measurement in words, indented."""
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
