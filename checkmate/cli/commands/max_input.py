"""``checkmate max-batch --dimension input``."""

from __future__ import annotations

import argparse
import functools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkmate.cli import common_options, output
from checkmate.cli.commands.max_batch_text import answer_facts, measured_facts, measured_lines
from checkmate.errors import ExitCode, UsageError
from checkmate.progress import Report
from checkmate.terminal import Interrupt, progress_line
from checkmate.units import format_bytes, format_overhead, format_seconds, plural

if TYPE_CHECKING:
    from checkmate.ir.graph import Graph
    from checkmate.largest.input_size import Make, MaxInput, Size
    from checkmate.largest.measured import MeasuredSize, SizeSteps

_USUAL, _BATCH = (224, 224, 3), 32
_QUICK = 224  # greatest height in pixels of the step that is timed first


def run(
    options: argparse.Namespace, interrupt: Interrupt, schedule: Path | None, graph_file: Path | None
) -> int:
    from checkmate.formats import write_graph, write_schedule
    from checkmate.graphs.paper import is_paper_name
    from checkmate.largest.input_size import max_input, size_at
    from checkmate.largest.of_model import require_measurable, why_not_measured

    how: Any = {
        "a_model": not is_paper_name(options.model),
        "measure": options.measure,
        "fixed_bytes": options.fixed,
    }
    with progress_line(quiet=options.quiet) as report:
        make, aspect = _maker(options, report, interrupt)
        require_measurable(options.model, **how)
        found = max_input(
            make,
            aspect,
            options.budget,
            max_overhead=options.max_overhead,
            options=replace(common_options.search_options(options), gap=0.0),
            report=report,
            cancelled=interrupt,
        )
        measured = _measured(options, found, make, aspect, why_not_measured(**how), report, interrupt)
    if graph_file is not None:
        write_graph(graph_file, found.graph)
    if schedule is not None:
        write_schedule(schedule, found.graph, found.result)
    wrote = [f"wrote {path}" for path in (schedule, graph_file) if path is not None]

    def size(level: int) -> Size:
        return size_at(level, aspect)

    told = {
        **facts(found),
        "measured": measured_facts(measured, "input", lambda level: list(size(level))),
    }
    shown = measured_lines(measured, "input", lambda level: _pixels(size(level)))
    output.show(options.json, told, "\n".join([text(found), *shown, *wrote]))
    return ExitCode.INTERRUPTED if found.cancelled or measured.cancelled else 0


def _measured(
    options: argparse.Namespace,
    found: MaxInput,
    make: Make,
    aspect: Size,
    why_not: str,
    report: Report,
    interrupt: Interrupt,
) -> MeasuredSize:
    from checkmate.largest.measured import MeasuredSize, measure_largest
    from checkmate.solvers.problem import SolveOptions

    if found.cancelled or why_not:
        return MeasuredSize(note=why_not or "interrupted")
    return measure_largest(
        _sizes_to_measure(options, found, make, aspect),
        options.budget,
        found.result.require_schedule().steps.tolist(),
        max_overhead=options.max_overhead,
        always=options.measure == "always",
        limit_s=options.measure_limit,
        options=SolveOptions(workers=options.workers, seed=options.seed),
        report=report,
        cancelled=interrupt,
    )


def _sizes_to_measure(options: argparse.Namespace, found: MaxInput, make: Make, aspect: Size) -> SizeSteps:
    from checkmate.largest.input_size import STEP, size_at
    from checkmate.largest.measured import input_steps

    quick = size_at(max(1, min(found.size[0], _QUICK) // STEP), aspect)
    small = make(quick)
    channels = 3 if options.input_shape is None else options.input_shape[2]
    request = replace(
        common_options.model_request(options),
        batch_size=found.graph.batch_size or 1,
        input_shape=(*quick, channels),
    )
    return input_steps(request, found, aspect, small)


def _maker(options: argparse.Namespace, report: Report, interrupt: Interrupt) -> tuple[Make, Size]:
    """Return how to make the step at a size, and the input's size.

    The size gives the proportion of height and width.
    """
    from checkmate import planning
    from checkmate.graphs.by_name import is_graph_file
    from checkmate.graphs.layers import training_graph
    from checkmate.graphs.paper import find_network, is_paper_name
    from checkmate.largest.scaling import with_fixed_bytes

    if is_graph_file(options.model):
        raise UsageError(
            f"{options.model} is a graph file, and has sizes for one input only",
            hint="name a model, or a network of the paper: paper.unet",
        )
    batch = options.batch_size or _BATCH
    if is_paper_name(options.model):
        network = find_network(options.model)

        def build(size: Size) -> Graph:
            return with_fixed_bytes(
                training_graph(network.network((*size, network.size[2])), batch), options.fixed
            )

        return build, (network.size[0], network.size[1])
    shape = options.input_shape or _USUAL
    if len(shape) != 3:
        raise UsageError(
            "--dimension input needs an image input",
            hint="give height, width and channels: --input-shape 224,224,3",
        )

    @functools.cache  # the step that is timed first is often one that was asked for
    def trace(size: Size) -> Graph:
        request = replace(
            common_options.model_request(options), batch_size=batch, input_shape=(*size, shape[2])
        )
        graph = planning.profile(request, costs="analytic", report=report, cancelled=interrupt)
        return with_fixed_bytes(graph, options.fixed)

    return trace, (shape[0], shape[1])


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
    from checkmate.largest.input_size import STEP

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
