"""Parse and run ``checkmate cards``."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from checkmate.cli.shared import options as cli_options
from checkmate.cli.shared import output
from checkmate.errors import ExitCode
from checkmate.terminal import Interrupt, progress_line
from checkmate.units import Budget

_SECONDS = 20.0


def add_cards(commands: Any, common: Any) -> None:
    """Add ``cards`` to the parser of all commands."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "cards",
        parents=[common],
        help="which card do I need: whether the step fits common cards, and at what cost",
        description="Say for common graphics cards whether the step keeps everything, fits at an extra "
        "cost, or does not fit. Only what is proved is said to be so. Ctrl-C keeps what was found. The exit "
        "code is 0 if the step fits some card, 3 if it is proved to fit none, 4 if that is not known, 130 if "
        "cancelled.",
        epilog="Example: checkmate cards resnet50-b256.graph",
    )
    parser.add_argument("graph", type=Path, metavar="G.json", help=cli_options.GRAPH_HELP)
    parser.add_argument(
        "--reserve",
        type=cli_options.size_in_bytes,
        metavar="SIZE",
        help="what of each card is not there for the step: error correction, driver, CUDA and TensorFlow "
        "(default 2.75GiB, an estimate)",
    )
    parser.add_argument(
        "--time-limit",
        type=cli_options.seconds,
        default=_SECONDS,
        help=f"seconds for all cards together (default {_SECONDS:g})",
    )
    cli_options.add_resources(parser)
    parser.set_defaults(command=_cards)


def _cards(options: argparse.Namespace, interrupt: Interrupt) -> int:
    from checkmate.catalog.cards import common_cards
    from checkmate.frontiers import cards as table
    from checkmate.frontiers.sweep import trade_off
    from checkmate.graphs.by_name import read_or_build
    from checkmate.solvers.problem import SolveOptions

    graph, cards = read_or_build(options.graph), common_cards()
    if options.reserve is not None:
        cards = replace(cards, reserve_bytes=options.reserve)
    solve = SolveOptions(time_limit_s=options.time_limit, workers=options.workers, seed=options.seed)
    budgets = [Budget(bytes_=table.budget_of(size, cards)) for size in cards.sizes]
    with progress_line(quiet=options.quiet) as report:
        found = trade_off(graph, budgets, options=solve, baselines=(), report=report, cancelled=interrupt)
    rows = table.card_rows(found.frontier, cards, found.plain_peak_bytes)
    facts = table.table_facts(graph, found.plain_peak_bytes, cards, rows)
    whole = {**facts, "seconds": found.seconds, "cancelled": found.cancelled}
    output.show(options.json, whole, table.text(graph, found.plain_peak_bytes, cards, rows))
    if found.cancelled:
        output.complain("interrupted; what was found so far is kept", "")
        return ExitCode.INTERRUPTED
    return exit_code({row.fit for row in rows})


def exit_code(fits: set[Any]) -> int:
    """Return the command's exit code, as its help says."""
    from checkmate.frontiers.cards import CardFit
    from checkmate.ir.result import SolveStatus

    if fits & {CardFit.KEEPS, CardFit.FITS}:
        return 0
    return output.solve_exit_code(
        SolveStatus.INFEASIBLE if fits == {CardFit.TOO_SMALL} else SolveStatus.LIMIT
    )
