"""``checkmate max-batch``: the largest batch of a graph file or a model within a budget; its parser, what it runs and prints."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkmate import cli_max_input, cli_options, cli_text
from checkmate.console import Interrupt, progress_line
from checkmate.errors import UsageError
from checkmate.origins import origin_words
from checkmate.progress import Report
from checkmate.units import (
    format_bytes,
    format_overhead,
    format_seconds,
)

if TYPE_CHECKING:
    from checkmate.ir.graph import Graph
    from checkmate.max_batch import MaxBatch
    from checkmate.scaling import BatchScaling

_SECONDS = 60.0
_INTERRUPTED = 130


def add_max_batch(commands: Any, common: Any) -> None:
    """Add ``max-batch`` to the parser of all commands."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "max-batch",
        parents=[common],
        help="the largest batch that fits a budget",
        description="The largest batch size whose schedule fits the budget with at most a given extra cost, extrapolated from the "
        "batch size of a graph file, or from a model's step traced at two batch sizes (with operation counts as costs).",
        epilog="Example: checkmate max-batch resnet50.json --budget 16GiB -o schedule.json",
    )
    add = parser.add_argument
    add("model", metavar="G.json|MODEL", help="a graph file (.json, .json.gz), a network of the paper (paper.unet), or a "
        "model as for profile")  # fmt: skip
    add("--budget", type=cli_options.fixed_budget, required=True, metavar="SIZE", help="6.5GiB or 16GB")
    add("--max-overhead", type=cli_options.overhead, metavar="X", help="the extra cost allowed: 5%%, 0.05 or any "
        "(default: one extra forward pass)")  # fmt: skip
    add("-b", "--batch-size", type=cli_options.positive, metavar="N", help="of the graph, where its file does not say; "
        "of a model: the first of the two to trace")  # fmt: skip
    add("--dimension", choices=("batch", "input"), default="batch", help="what is to be largest: the batch, or the input's height "
        "and width at --batch-size (default 32)")  # fmt: skip
    add("--fixed", type=cli_options.size_in_bytes, metavar="SIZE", help="bytes that are always live and do not grow, instead of the file's: "
        "parameters, their gradients, optimizer state")  # fmt: skip
    add("-o", "--output", type=Path, metavar="S.json", help="the schedule file to write, for the largest batch")
    add(
        "-g",
        "--graph-output",
        type=Path,
        metavar="G2.json",
        help="the graph at that batch (default: S.graph.json, with -o)",
    )
    add("--time-limit", type=cli_options.seconds, default=_SECONDS, help=f"seconds (default {_SECONDS:g})")
    add("--gap", type=cli_options.fraction, default=0.0, help="stop this near to the proved limit, e.g. 0.01")
    cli_options.add_training(parser)
    cli_options.add_resources(parser)
    parser.set_defaults(command=_max_batch)


def traces(options: argparse.Namespace) -> bool:
    """Whether the command is ``max-batch`` of a model, which TensorFlow traces."""
    return options.command is _max_batch and not _is_file(options) and not options.model.startswith("paper.")


def _is_file(options: argparse.Namespace) -> bool:
    return str(options.model).endswith((".json", ".json.gz"))


def _max_batch(options: argparse.Namespace, interrupt: Interrupt) -> int:
    from checkmate.formats.files import require_writable
    from checkmate.max_batch import max_batch
    from checkmate.solvers.problem import SolveOptions

    schedule, graph_file = options.output, _graph_file(options)
    for path in filter(None, (schedule, graph_file)):
        require_writable(path)
    if options.dimension == "input":
        return cli_max_input.run(options, interrupt, schedule, graph_file)
    with progress_line(quiet=options.quiet) as report:
        found = max_batch(
            _scaling(options, report, interrupt),
            options.budget,
            max_overhead=options.max_overhead,
            options=SolveOptions(
                time_limit_s=options.time_limit, gap=options.gap, workers=options.workers, seed=options.seed
            ),
            report=report,
            cancelled=interrupt,
        )
    _write(found, schedule, graph_file)
    cli_text.show(options.json, facts(found), text(found, schedule, graph_file))
    return _INTERRUPTED if found.cancelled else 0


def _scaling(options: argparse.Namespace, report: Report, interrupt: Interrupt) -> BatchScaling:
    from checkmate import pipeline
    from checkmate.formats import read_any_graph
    from checkmate.graphs.paper import is_paper_name
    from checkmate.named_graphs import built
    from checkmate.scaling import BatchScaling, with_fixed_bytes
    from checkmate.scaling_traced import traced_at_two

    if _is_file(options):
        graph = with_fixed_bytes(read_any_graph(Path(options.model)), options.fixed)
        return BatchScaling(graph, options.batch_size or 0)
    if is_paper_name(options.model):
        return BatchScaling(with_fixed_bytes(built(options.model, options.batch_size), options.fixed))

    def trace(batch: int) -> Graph:
        request = replace(cli_options.model_request(options), batch_size=batch)
        graph = pipeline.profile(request, costs="analytic", report=report, cancelled=interrupt)
        return with_fixed_bytes(graph, options.fixed)

    return traced_at_two(trace, options.batch_size)


def _graph_file(options: argparse.Namespace) -> Path | None:
    schedule: Path | None = options.output
    given: Path | None = options.graph_output
    if given is not None or schedule is None:
        path = given
    else:
        path = schedule.with_name(f"{schedule.name.split('.')[0]}.graph.json")
    if path is not None and schedule is not None and path.resolve() == schedule.resolve():
        raise UsageError("the schedule and the graph cannot go into one file", hint="give another --graph-output")
    if path is not None and path.resolve() == Path(options.model).resolve():
        raise UsageError(f"{path} is the graph that is read", hint="give another --graph-output")
    return path


def _write(found: MaxBatch, schedule: Path | None, graph_file: Path | None) -> None:
    from checkmate.formats import write_graph, write_schedule

    if graph_file is not None:
        write_graph(graph_file, found.graph)
    if schedule is not None:
        write_schedule(schedule, found.graph, found.result)


def facts(found: MaxBatch) -> dict[str, Any]:
    """What ``--json`` prints. Batches in examples, sizes in bytes; costs in the graph's unit, of the step at ``batch``."""
    from checkmate.max_batch import forward_cost

    result, graph = found.result, found.graph
    assert result.cost is not None
    forward = forward_cost(graph)
    return {
        "format": "checkmate-max-batch",
        "version": 1,
        "name": graph.name,
        "batch": found.batch,
        "upper_bound_batch": found.upper_batch,
        "proved": found.proved,
        "extrapolated_from_batch": found.scaling.batch,
        "extrapolation": found.scaling.note(),
        "budget_bytes": result.budget_bytes,
        "peak_bytes": result.peak_bytes,
        "fixed_bytes": graph.fixed_bytes,
        "max_overhead": None if found.max_overhead == float("inf") else found.max_overhead,
        "rule": _rule(found),
        "cost": result.cost,
        "base_cost": result.base_cost,
        "cost_limit": found.cost_limit,
        "cost_unit": graph.cost_unit.value,
        "overhead": result.overhead,
        "extra_forward_passes": (result.cost - result.base_cost) / forward if forward > 0 else None,
        "plain_batch": found.plain_batch,
        "baselines": dict(found.baselines),
        "baselines_out_of_time": sorted(found.unfinished),
        "solver": result.solver,
        "seconds": found.seconds,
        "probes": found.probes,
        "cancelled": found.cancelled,
        "graph_fingerprint": graph.fingerprint,
        "steps": result.require_schedule().steps.tolist(),
    }


def text(found: MaxBatch, schedule: Path | None, graph_file: Path | None) -> str:
    """The same in words."""
    result, graph = found.result, found.graph
    assert result.cost is not None and result.peak_bytes is not None
    extra = format_overhead(result.cost, result.base_cost)
    proved = (
        "proved largest" if found.proved else f"no batch above {found.upper_batch} fits, proved; between is not known"
    )
    if found.cancelled:
        proved += "; interrupted"
    rows = [("keep everything, given order", f"{found.plain_batch:,}" if found.plain_batch else "none")]
    rows += [(name, _baseline(found, name)) for name in found.baselines]
    rows += [("checkmate", f"{found.batch:,}"), ("proved limit", f"{found.upper_batch:,}")]
    return "\n".join(
        [
            f"{graph.name} within {format_bytes(result.budget_bytes)}, {_rule(found)}: batch {found.batch:,} ({proved})",
            f"  {found.scaling.note()}",
            *(f"  {name:<30}{batch:>16}" for name, batch in rows),
            f"  peak      {format_bytes(result.peak_bytes)} (requested bytes, predicted), {format_bytes(graph.fixed_bytes)} "
            "of it fixed",
            f"  cost      {cli_text.cost_text(graph, result.cost)}, {extra} over computing everything once "
            f"({origin_words(graph)})",
            f"  solved by {result.solver} in {format_seconds(found.seconds)}, {found.probes} batches asked",
            "  not traced at this batch: to train with it, profile it there (fewer or more ops may be folded) and solve",
            *(f"wrote {path}" for path in (schedule, graph_file) if path is not None),
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
    return f"at most {100 * found.max_overhead:g} % dearer"
