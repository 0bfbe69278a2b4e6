"""``checkmate cards``."""

from __future__ import annotations

import argparse
from dataclasses import replace

from checkmate.catalog.cards import common_cards
from checkmate.cli import common_options, output
from checkmate.frontiers import cards as table
from checkmate.frontiers.cards import CardFit
from checkmate.frontiers.sweep import trade_off
from checkmate.graphs.by_name import read_or_build
from checkmate.terminal import Interrupt, progress_line
from checkmate.units import Budget


def add_cards(parser: argparse.ArgumentParser) -> None:
    common_options.describe(
        parser,
        _cards,
        "Say for common graphics cards whether the step keeps everything, fits at an extra cost, or does not "
        "fit. Ctrl-C keeps what was found. Exit codes: 0 it fits some card, 3 it is proved to fit none, 4 "
        "that is not known.",
        example="checkmate cards resnet50-b256.graph",
    )
    common_options.add_graph(parser)
    parser.add_argument(
        "--reserve",
        type=common_options.size_in_bytes,
        metavar="SIZE",
        help="what of each card is not there for the step: error correction, driver, CUDA and TensorFlow "
        "(default 2.75GiB, an estimate)",
    )
    common_options.add_time_limit(parser, 20.0, "seconds for all cards together")
    common_options.add_resources(parser)


def _cards(options: argparse.Namespace, interrupt: Interrupt) -> int:
    graph, cards = read_or_build(options.graph), common_cards()
    if options.reserve is not None:
        cards = replace(cards, reserve_bytes=options.reserve)
    solve = common_options.search_options(options)
    budgets = [Budget(bytes_=table.budget_of(size, cards)) for size in cards.sizes]
    with progress_line(quiet=options.quiet) as report:
        found = trade_off(graph, budgets, options=solve, baselines=(), report=report, cancelled=interrupt)
    rows = table.card_rows(found.frontier, cards, found.plain_peak_bytes)
    facts = table.table_facts(graph, found.plain_peak_bytes, cards, rows)
    whole = {**facts, "seconds": found.seconds, "cancelled": found.cancelled}
    output.show(options.json, whole, table.text(graph, found.plain_peak_bytes, cards, rows))
    if found.cancelled:
        return output.interrupted()
    fits = {row.fit for row in rows}
    some = bool(fits & {CardFit.KEEPS, CardFit.FITS})
    return output.fit_exit_code(fits=some, refuted=fits == {CardFit.TOO_SMALL})
