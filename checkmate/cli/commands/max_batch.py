from __future__ import annotations

import argparse
from pathlib import Path

from checkmate.cli import common_options, output
from checkmate.cli.commands import max_batch_text, max_input
from checkmate.errors import ExitCode, UsageError
from checkmate.formats import write_graph, write_schedule
from checkmate.formats.files import require_writable
from checkmate.ir import Graph
from checkmate.largest.of_model import graph_or_request, largest_batch
from checkmate.terminal import Interrupt, progress_line


def add_max_batch(parser: argparse.ArgumentParser) -> None:
    common_options.describe(
        parser,
        _max_batch,
        "Find the largest batch whose schedule fits the budget within an extra cost. A graph is extrapolated "
        "from its own batch; a model is traced at two, with operation counts as costs.",
        example="checkmate max-batch resnet50.json --budget 16GiB -o schedule.json",
        tensorflow=True,
    )
    _add_question(parser)
    _add_files(parser)
    _add_search(parser)


def _add_question(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "model",
        type=common_options.bundled_or_given,
        metavar="G.json|MODEL",
        help="a graph file, a network of the paper (paper.unet), or a model as for profile",
    )
    add(
        "--budget",
        type=common_options.fixed_budget,
        required=True,
        metavar="SIZE",
        help="the budget: 6.5GiB or 16GB",
    )
    common_options.add_max_overhead(parser, common_options.ALLOWED_HELP)
    add(
        "-b",
        "--batch-size",
        type=common_options.positive,
        metavar="N",
        help="of a graph file that does not say it; of a model: the smaller of the two to trace; with "
        "--dimension input: the batch size (default 32)",
    )
    add(
        "--dimension",
        choices=("batch", "input"),
        default="batch",
        help="what to make as large as possible: the batch (default), or the input's height and width",
    )
    add(
        "--fixed",
        type=common_options.size_in_bytes,
        metavar="SIZE",
        help="bytes that do not grow with the batch, such as parameters and optimizer state, in place of the "
        "graph's own number",
    )


def _add_files(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "-o",
        "--output",
        type=Path,
        metavar="S.json",
        help="write the schedule for the largest batch to this file",
    )
    add(
        "-g",
        "--graph-output",
        type=Path,
        metavar="G2.json",
        help="write the graph at that batch to this file (default: S.graph.json, with -o)",
    )


def _add_search(parser: argparse.ArgumentParser) -> None:
    common_options.add_time_limit(
        parser,
        60.0,
        "seconds to search for the largest size, beside tracing and measuring",
    )
    parser.add_argument(
        "--gap",
        type=common_options.fraction,
        default=0.0,
        help="stop when this close to the proved limit, e.g. 0.01",
    )
    common_options.add_training(parser)
    common_options.add_resources(parser)
    add = parser.add_argument_group(
        "measuring",
        "A model's step is run in a fresh process at the largest size found, and at smaller ones while its "
        "peak is over the budget.",
    ).add_argument
    add(
        "--measure",
        choices=("auto", "always", "never"),
        default="auto",
        help="auto (default): measure where the device has the memory free and --measure-limit should do; "
        "always: without these checks; never",
    )
    add(
        "--measure-limit",
        type=common_options.seconds,
        default=120.0,
        metavar="SECONDS",
        help="seconds for all measuring, unless --measure always is given (default 120)",
    )


def _max_batch(options: argparse.Namespace, interrupt: Interrupt) -> int:
    schedule, graph_file = options.output, _graph_file(options.model, options.output, options.graph_output)
    files = [path for path in (schedule, graph_file) if path is not None]
    for path in files:
        require_writable(path)
    if options.dimension == "input":
        return max_input.run(options, interrupt, schedule, graph_file)
    with progress_line(quiet=options.quiet) as report:
        given = graph_or_request(options.model, options.batch_size)
        best = largest_batch(
            given if isinstance(given, Graph) else common_options.model_request(options),
            options.budget,
            batch_size=options.batch_size,
            fixed_bytes=options.fixed,
            measure=options.measure,
            measure_limit_s=options.measure_limit,
            **common_options.search_arguments(options, report, interrupt),
        )
    # If a batch was measured, the graph that was traced there is written, ready to be exported.
    if graph_file is not None:
        write_graph(graph_file, best.graph)
    if schedule is not None:
        write_schedule(schedule, best.graph, best.result)
    told = max_batch_text.facts(best.found, best.measured)
    output.show(options.json, told, max_batch_text.text(best.found, best.measured, files))
    return ExitCode.INTERRUPTED if best.found.cancelled or best.measured.cancelled else 0


def _graph_file(model: str, schedule: Path | None, given: Path | None) -> Path | None:
    if given is not None or schedule is None:
        path = given
    else:
        stem = schedule.name.removesuffix(".gz").removesuffix(".json")
        path = schedule.with_name(f"{stem}.graph.json")
    if path is not None and schedule is not None and path.resolve() == schedule.resolve():
        raise UsageError(
            "the schedule and the graph cannot go into one file", hint="give another --graph-output"
        )
    if path is not None and path.resolve() == Path(model).resolve():
        raise UsageError(f"{path} is the graph that is read", hint="give another --graph-output")
    return path
