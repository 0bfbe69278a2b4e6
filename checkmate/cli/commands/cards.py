"""``checkmate cards`` and ``plan``."""

from __future__ import annotations

import argparse
from dataclasses import replace

from checkmate.catalog.cards import cards_called, common_cards
from checkmate.cli import common_options, output
from checkmate.frontiers import cards as table
from checkmate.frontiers.cards import CardFit
from checkmate.frontiers.sweep import trade_off
from checkmate.graphs.by_name import read_or_build
from checkmate.largest import cards_table
from checkmate.largest.of_model import graph_or_request, scaling_of
from checkmate.largest.on_cards import plans_for_cards
from checkmate.request import ModelRequest
from checkmate.terminal import Interrupt, progress_line
from checkmate.units import Budget

_EXIT_CODES = "Exit codes: 0 it fits some card, 3 it is proved to fit none, 4 that is not known."


def add_cards(parser: argparse.ArgumentParser) -> None:
    common_options.describe(
        parser,
        _cards,
        "Say for common graphics cards whether the step keeps everything, fits at an extra cost, or does not "
        f"fit. Ctrl-C keeps what was found. {_EXIT_CODES}",
        example="checkmate cards resnet50-b256.graph",
    )
    common_options.add_graph(parser)
    common_options.add_reserve(parser)
    common_options.add_time_limit(parser, 20.0, "seconds for all cards together")
    common_options.add_resources(parser)


def add_plan(parser: argparse.ArgumentParser) -> None:
    common_options.describe(
        parser,
        _plan,
        "Estimate for common graphics cards the largest batch, with and without recomputation, and the "
        "seconds for one example, from operations, bytes moved and data sheets: nothing is run on a card. "
        f"Ctrl-C keeps the cards that are done. {_EXIT_CODES}",
        example="checkmate plan resnet50 --devices T4,A100",
        tensorflow=True,
    )
    add = parser.add_argument
    add(
        "model",
        type=common_options.bundled_or_given,
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
        type=common_options.positive,
        metavar="N",
        help="for a model: the smaller of the two batch sizes to trace; for a graph file: its batch size, if "
        "the file does not say it",
    )
    common_options.add_max_overhead(parser, common_options.ALLOWED_HELP)
    common_options.add_reserve(parser)
    common_options.add_time_limit(parser, 60.0, "seconds of search for all cards together")
    common_options.add_training(parser)
    common_options.add_resources(parser)


def _cards(options: argparse.Namespace, interrupt: Interrupt) -> int:
    graph, cards = read_or_build(options.graph), common_cards()
    if options.reserve is not None:
        cards = replace(cards, reserve_bytes=options.reserve)
    solve = common_options.search_options(options)
    budgets = [Budget(bytes_=cards.left_for_step(size.memory_bytes)) for size in cards.sizes]
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


def _plan(options: argparse.Namespace, interrupt: Interrupt) -> int:
    cards = cards_called([name for name in options.devices.split(",") if name.strip()])
    reserve = common_cards().reserve_bytes if options.reserve is None else options.reserve
    found = graph_or_request(options.model, options.batch_size)
    with progress_line(quiet=options.quiet) as report:
        scaling = scaling_of(
            common_options.model_request(options) if isinstance(found, ModelRequest) else found,
            batch_size=options.batch_size,
            report=report,
            cancelled=interrupt,
        )
        plans = plans_for_cards(
            scaling,
            cards,
            reserve_bytes=reserve,
            **common_options.search_arguments(options, report, interrupt),
        )
    cancelled = len(plans) < len(cards)
    facts = cards_table.facts(scaling, plans, reserve) | {"cancelled": cancelled}
    output.show(options.json, facts, cards_table.text(scaling, plans, reserve, options.max_overhead))
    if cancelled:
        return output.interrupted(f"{len(plans)} of {len(cards)} cards are done")
    answers = {plan.answer for plan in plans}
    return output.fit_exit_code(fits=CardFit.FITS in answers, refuted=answers == {CardFit.TOO_SMALL})
