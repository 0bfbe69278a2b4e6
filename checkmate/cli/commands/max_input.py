"""``checkmate max-batch --dimension input``."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from checkmate.cli import common_options, output
from checkmate.cli.commands.max_batch_text import answer_facts, measured_facts, measured_lines
from checkmate.errors import ExitCode
from checkmate.formats import write_graph, write_schedule
from checkmate.graphs.paper import is_paper_name
from checkmate.largest.input_size import MaxInput, max_input
from checkmate.largest.measured import MeasuredSize, SizeSteps, measure_largest
from checkmate.largest.of_model import why_not_measured
from checkmate.largest.sized_steps import STEP, USUAL_SHAPE, Size, SizedStep, size_at, sized_step
from checkmate.terminal import Interrupt, progress_line
from checkmate.units import format_bytes, format_overhead, format_seconds, plural

_QUICK = 224  # greatest height in pixels of the step that is timed first


def run(
    options: argparse.Namespace, interrupt: Interrupt, schedule: Path | None, graph_file: Path | None
) -> int:
    with progress_line(quiet=options.quiet) as report:
        request = common_options.model_request(options)
        step = sized_step(request, options.batch_size, options.fixed, report, interrupt)
        a_model = not is_paper_name(options.model)
        why_not = why_not_measured(
            options.model, a_model=a_model, measure=options.measure, fixed_bytes=options.fixed
        )
        asked = common_options.search_arguments(options, report, interrupt)
        asked["options"] = replace(asked["options"], gap=0.0)
        found = max_input(step, options.budget, **asked)
        why_not = why_not or ("interrupted" if found.cancelled else "")
        if why_not:
            measured = MeasuredSize(note=why_not)
        else:
            measured = _measured(options, found, step, asked)
    if graph_file is not None:
        write_graph(graph_file, found.graph)
    if schedule is not None:
        write_schedule(schedule, found.graph, found.result)
    wrote = [f"wrote {path}" for path in (schedule, graph_file) if path is not None]

    def size(level: int) -> Size:
        return size_at(level, step.aspect)

    told = {
        **facts(found),
        "measured": measured_facts(measured, "input", lambda level: list(size(level))),
    }
    shown = measured_lines(measured, "input", lambda level: _pixels(size(level)))
    output.show(options.json, told, "\n".join([text(found), *shown, *wrote]))
    return ExitCode.INTERRUPTED if found.cancelled or measured.cancelled else 0


def _measured(
    options: argparse.Namespace, found: MaxInput, step: SizedStep, asked: dict[str, Any]
) -> MeasuredSize:
    # A small one, no larger than the size found, is timed first.
    quick = size_at(max(1, min(found.size[0], _QUICK) // STEP), step.aspect)
    request = replace(
        common_options.model_request(options),
        batch_size=found.graph.batch_size or 1,
        input_shape=(*quick, (options.input_shape or USUAL_SHAPE)[2]),
    )
    return measure_largest(
        SizeSteps.below(found.size[0] // STEP, request, step.at(quick), found.result, step.aspect),
        options.budget,
        found.result.require_schedule().steps.tolist(),
        always=options.measure == "always",
        limit_s=options.measure_limit,
        **asked,
    )


def facts(found: MaxInput) -> dict[str, Any]:
    return {
        **answer_facts(found),
        "dimension": "input",
        "input": list(found.size),
        "batch": found.graph.batch_size,
        "plain_input": None if found.plain_size is None else list(found.plain_size),
        "memory_limit_input": list(found.memory_size),
        "refuted_input": None if found.refuted_size is None else list(found.refuted_size),
        "sizes_made": found.sizes_made,
    }


def text(found: MaxInput) -> str:
    result, graph = found.result, found.graph
    assert result.cost is not None and result.peak_bytes is not None
    memory = f"above {_pixels(found.memory_size)} one op alone needs more than the budget"
    if found.proved:
        known = f"proved largest in steps of {STEP} pixels: {memory}"
    elif found.refuted_size is None:
        known = f"a larger input may fit; {memory}"
    else:
        known = f"proved: {_pixels(found.refuted_size)} does not fit at that cost; {memory}"
    plain = "none" if found.plain_size is None else _pixels(found.plain_size)
    return "\n".join(
        [
            f"{graph.name} at batch {graph.batch_size} within {format_bytes(result.budget_bytes)}: input "
            f"{_pixels(found.size)}" + (", interrupted" if found.cancelled else ""),
            f"  {known}",
            f"  keep everything, given order: {plain}",
            f"  peak      {format_bytes(result.peak_bytes)}, {format_bytes(graph.fixed_bytes)} of it fixed",
            f"  cost      {format_overhead(result.cost, result.base_cost)} over computing everything once, "
            f"{format_overhead(found.cost_limit, result.base_cost)} allowed",
            f"  solved in {format_seconds(found.seconds)}; the step was built at "
            f"{plural(found.sizes_made, 'size')}",
        ]
    )


def _pixels(size: Size) -> str:
    return f"{size[0]} x {size[1]}"
