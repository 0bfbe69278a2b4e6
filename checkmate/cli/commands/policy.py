from __future__ import annotations

import argparse
from pathlib import Path

from checkmate import planning
from checkmate.cli import common_options, output
from checkmate.errors import CancelledError
from checkmate.formats.files import require_writable, write_bytes
from checkmate.ir import Graph, SolveStatus
from checkmate.largest.of_model import graph_or_request
from checkmate.policies.policy import find_policy
from checkmate.terminal import Interrupt, progress_line


def add_policy(parser: argparse.ArgumentParser) -> None:
    common_options.describe(
        parser,
        _policy,
        "Choose layers, blocks or modules that are computed again as a whole, and print the code that says "
        "so with the framework's own means (keras.remat, jax.checkpoint, torch.utils.checkpoint). The best "
        "schedule, which needs this program to run, is solved beside it.",
        example="checkmate policy unet -b 8 --budget 60%",
        tensorflow=True,
    )
    add = parser.add_argument
    add(
        "model",
        type=common_options.bundled_or_given,
        metavar="G.json|MODEL",
        help="a graph file, a bundled graph's name, or a model as for profile",
    )
    add(
        "--budget",
        type=common_options.budget,
        required=True,
        help="the budget: 6.5GiB, 16GB, 60%% of keep-everything, or min",
    )
    add("-b", "--batch-size", type=common_options.positive, help="of a model: examples per step (default 32)")
    add("-o", "--output", type=Path, metavar="FILE.py", help="write the code to this file")
    common_options.add_costs(parser)
    common_options.add_training(parser)
    common_options.add_time_limit(parser, 60.0, "seconds to search, beside tracing and measuring costs")
    common_options.add_resources(parser)


def _policy(options: argparse.Namespace, interrupt: Interrupt) -> int:
    if options.output is not None:
        require_writable(options.output)
    with progress_line(quiet=options.quiet) as report:
        graph = graph_or_request(options.model, options.batch_size)
        if not isinstance(graph, Graph):
            graph = planning.profile(
                common_options.model_request(options),
                costs=options.costs,
                refresh=options.refresh,
                report=report,
                cancelled=interrupt,
            )
        found = find_policy(
            graph,
            planning.resolve_budget(graph, options.budget),
            options=common_options.search_options(options),
            report=report,
            cancelled=interrupt,
        )
    if interrupt.asked:
        raise CancelledError("cancelled")  # an unfinished result is not the answer
    if options.output is not None:
        write_bytes(options.output, found.code.encode())
    output.show(options.json, found.to_json(), repr(found))
    refuted = found.best.status is SolveStatus.INFEASIBLE
    return output.fit_exit_code(fits=found.fits, refuted=refuted)
