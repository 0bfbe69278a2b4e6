"""Parse and run ``checkmate plan``."""

from __future__ import annotations

import argparse
from typing import Any

from checkmate.cli.shared import options as cli_options
from checkmate.cli.shared import output
from checkmate.errors import ExitCode
from checkmate.terminal import Interrupt, progress_line

_SECONDS = 60.0


def add_plan(commands: Any, common: Any) -> None:
    """Add ``plan`` to the parser of all commands."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "plan",
        parents=[common],
        help="before renting a card: the largest batch and the time of an example on each",
        description="Estimate for common graphics cards the largest batch, with and without recomputation, "
        "and the seconds for one example. Nothing is run on a card: sizes are traced, seconds come from "
        "operations, bytes moved and each card's data sheet. Ctrl-C keeps the cards that are done. The exit "
        "code is 0 if the step fits some card, 3 if it is proved to fit none, 4 if that is not known, 130 if "
        "cancelled.",
        epilog="Example: checkmate plan resnet50 --devices T4,A100",
    )
    add = parser.add_argument
    add(
        "model",
        type=cli_options.bundled_or_given,
        metavar="MODEL|G.json",
        help="a model as for profile, a network of the paper (paper.unet), or a graph file with operation "
        "counts as costs",
    )
    add(
        "--devices",
        nargs="?",
        const="",
        default="",
        metavar="NAME,NAME",
        help="cards to plan for, by a part of their names: T4,A100,4090 (default: all in the table)",
    )
    add(
        "-b",
        "--batch-size",
        type=cli_options.positive,
        metavar="N",
        help="for a model: the smaller of the two batch sizes to trace; for a graph file: its batch size, if "
        "the file does not say it",
    )
    add(
        "--max-overhead",
        type=cli_options.overhead,
        metavar="X",
        help="the extra cost allowed: 5%%, 0.05 or any (default: one extra forward pass)",
    )
    add(
        "--reserve",
        type=cli_options.size_in_bytes,
        metavar="SIZE",
        help="what of each card is not there for the step: error correction, driver, CUDA and TensorFlow "
        "(default 2.75GiB, an estimate)",
    )
    add(
        "--time-limit",
        type=cli_options.seconds,
        default=_SECONDS,
        help=f"seconds of search for all cards together (default {_SECONDS:g})",
    )
    cli_options.add_training(parser)
    cli_options.add_resources(parser)
    parser.set_defaults(command=_plan)


def traces(options: argparse.Namespace) -> bool:
    """Return whether the command is ``plan`` of a model. TensorFlow traces a model."""
    if options.command is not _plan:
        return False
    from checkmate.graphs.by_name import names_graph

    return not names_graph(options.model)


def _plan(options: argparse.Namespace, interrupt: Interrupt) -> int:
    from checkmate.catalog.cards import cards_called, common_cards
    from checkmate.largest import cards_table
    from checkmate.largest.of_model import graph_or_request, scaling_of
    from checkmate.largest.on_cards import plans_for_cards
    from checkmate.request import ModelRequest
    from checkmate.solvers.problem import SolveOptions

    cards = cards_called([name for name in options.devices.split(",") if name.strip()])
    reserve = common_cards().reserve_bytes if options.reserve is None else options.reserve
    found = graph_or_request(options.model, options.batch_size)
    with progress_line(quiet=options.quiet) as report:
        scaling = scaling_of(
            cli_options.model_request(options) if isinstance(found, ModelRequest) else found,
            batch_size=options.batch_size,
            report=report,
            cancelled=interrupt,
        )
        plans = plans_for_cards(
            scaling,
            cards,
            reserve_bytes=reserve,
            max_overhead=options.max_overhead,
            options=SolveOptions(time_limit_s=options.time_limit, workers=options.workers, seed=options.seed),
            report=report,
            cancelled=interrupt,
        )
    cancelled = len(plans) < len(cards)
    facts = cards_table.facts(scaling, plans, reserve) | {"cancelled": cancelled}
    output.show(options.json, facts, cards_table.text(scaling, plans, reserve, options.max_overhead))
    if cancelled:
        output.complain(f"interrupted; {len(plans)} of {len(cards)} cards are done", "")
        return ExitCode.INTERRUPTED
    return exit_code({plan.answer for plan in plans})


def exit_code(answers: set[Any]) -> int:
    """Return the command's exit code, as its help says."""
    from checkmate.ir.result import SolveStatus
    from checkmate.largest.on_cards import CardAnswer

    if CardAnswer.FITS in answers:
        return 0
    only_small = answers == {CardAnswer.TOO_SMALL}
    return output.solve_exit_code(SolveStatus.INFEASIBLE if only_small else SolveStatus.LIMIT)
