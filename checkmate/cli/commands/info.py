"""``checkmate info``, of one graph or two side by side, and ``checkmate list``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from checkmate import listing
from checkmate.cli import common_options
from checkmate.cli.output import graph_facts, show, target_words
from checkmate.graphs.by_name import read_or_build
from checkmate.ir import Graph
from checkmate.machine.cost_origin import cost_text, elsewhere_words, origin_words, reading_words
from checkmate.terminal import Interrupt, progress_line
from checkmate.text_table import aligned_lines
from checkmate.units import format_bytes

_MOST_LAYERS = 12
_NONE = "-"  # in a table of two graphs

Facts = Mapping[str, Any]


def add_info(parser: argparse.ArgumentParser) -> None:
    common_options.describe(parser, _info)
    common_options.add_graph(parser)
    parser.add_argument(
        "other", type=Path, metavar="B.json", nargs="?", help="another graph, to show both side by side"
    )


def add_list(parser: argparse.ArgumentParser) -> None:
    common_options.describe(parser, _list, tensorflow=True)
    parser.add_argument("what", choices=("solvers", "devices", "loaders", "exporters", "models"))


def _list(options: argparse.Namespace, interrupt: Interrupt) -> int:
    with progress_line(quiet=options.quiet):
        rows = listing.listing(options.what)
    cells = [(str(row["name"]), f"{_unavailable(row)}{row['description']}") for row in rows]
    show(options.json, {options.what: rows}, "\n".join(aligned_lines(cells, left=(0, 1))))
    return 0


def _info(options: argparse.Namespace, interrupt: Interrupt) -> int:
    with progress_line(quiet=options.quiet):
        graphs = [read_or_build(path) for path in (options.graph, options.other) if path is not None]
        facts = [graph_facts(graph, detailed=True) for graph in graphs]
    if options.other is None:
        show(options.json, facts[0], info_text(graphs[0], facts[0]))
    else:
        both = facts[0], facts[1]
        told = {"format": "checkmate-graphs", "version": 1, "graphs": facts}
        show(options.json, told, _pair_text((graphs[0], graphs[1]), both))
    return 0


def _unavailable(row: Mapping[str, Any]) -> str:
    return "" if row.get("available", True) else f"(not available: {row['why']}) "


def elsewhere_note(graph: Graph) -> str:
    words = elsewhere_words(graph)
    return (
        f"{words}: seconds and scratch memory may differ; export and verify work both out again"
        if words
        else ""
    )


def info_text(graph: Graph, facts: Mapping[str, Any]) -> str:
    device = graph.device
    reached, bound = facts["minimum_reached_bytes"], facts["minimum_bound_bytes"]
    least = f"{format_bytes(reached)} reached by the fast heuristic"
    least += " (proved: no schedule can be smaller)" if facts["minimum_proved"] else ""
    peak = max(1, facts["keep_everything_peak_bytes"] - graph.fixed_bytes)
    lines = [
        f"{graph.name}: {graph.n} ops, {graph.m} values"
        + (f", batch {graph.batch_size}" if graph.batch_size else "")
        + (f", profiled on {device.name}" if device and device.kind in ("cpu", "gpu") else "")
        + target_words(graph),
        "  phases            " + ", ".join(f"{count} {phase}" for phase, count in facts["phases"].items()),
        f"  one step          {cost_text(graph, graph.base_cost)} ({origin_words(graph)})",
        *(f"  note              {words}" for words in (elsewhere_note(graph), reading_words(graph)) if words),
        f"  keep everything   {format_bytes(facts['keep_everything_peak_bytes'])} (peak while "
        f"{facts['peak_op']!r} runs)",
        f"  fixed             {format_bytes(graph.fixed_bytes)}"
        + (
            f" ({', '.join(f'{name} {format_bytes(size)}' for name, size in graph.fixed.items())})"
            if graph.fixed
            else ""
        ),
        f"  least possible    at least {format_bytes(bound)} (needed by {facts['minimum_bound_op']!r}); "
        f"{least}",
        "  also alive at the peak, by layer:" if graph.fixed_bytes else "  alive at the peak, by layer:",
    ]
    for name, size in list(facts["alive_at_peak_by_layer"].items())[:_MOST_LAYERS]:
        lines.append(f"    {format_bytes(size):>9}  {100 * size / peak:4.0f} %  {name}")
    rest = list(facts["alive_at_peak_by_layer"].values())[_MOST_LAYERS:]
    if rest:
        lines.append(
            f"    {format_bytes(sum(rest)):>9}  {100 * sum(rest) / peak:4.0f} %  in {len(rest)} more layers"
        )
    return "\n".join(lines)


def _pair_text(graphs: tuple[Graph, Graph], facts: tuple[Facts, Facts]) -> str:
    a, b = graphs
    head = f"{_name(a)} (A) and {_name(b)} (B); bytes are requested bytes, predicted"
    rows = [("", "A", "B", "B against A"), *_rows(graphs, facts)]
    layers = [("layer", "A", "B", "difference"), *_layer_rows(*facts)]
    return "\n".join(
        [
            head,
            *(f"  {line}" for line in aligned_lines(rows)),
            "  alive at the peak, by layer, the largest difference first:",
            *(f"    {line}" for line in aligned_lines(layers)),
        ]
    )


def _rows(graphs: tuple[Graph, Graph], facts: tuple[Facts, Facts]) -> list[tuple[str, str, str, str]]:
    found = [
        ("ops", *(f"{one['ops']:,}" for one in facts), _factor(*(one["ops"] for one in facts))),
        ("batch", *(str(one.batch_size or _NONE) for one in graphs), _batches(graphs)),
    ]
    for words, key in (
        ("keep everything", "keep_everything_peak_bytes"),
        ("of it fixed", "fixed_bytes"),
        ("least reached by the fast heuristic", "minimum_reached_bytes"),
        ("least possible, at least", "minimum_bound_bytes"),
    ):
        sizes = [one[key] for one in facts]
        found.append((words, *map(format_bytes, sizes), _factor(*sizes)))
    one_unit = graphs[0].cost_unit is graphs[1].cost_unit
    costs = [one.base_cost for one in graphs]
    found.append(
        (
            "one step",
            *(cost_text(one, one.base_cost) for one in graphs),
            _factor(*costs) if one_unit else "other units",
        )
    )
    found.append(("costs", *map(origin_words, graphs), ""))
    return [(row[0], row[1], row[2], row[3]) for row in found]


def _layer_rows(a: Facts, b: Facts) -> list[tuple[str, str, str, str]]:
    one, other = a["alive_at_peak_by_layer"], b["alive_at_peak_by_layer"]
    names = sorted({*one, *other}, key=lambda name: -abs(other.get(name, 0) - one.get(name, 0)))
    rows = [(name, *_pair(one.get(name), other.get(name))) for name in names[:_MOST_LAYERS]]
    if len(names) > _MOST_LAYERS:
        rest = names[_MOST_LAYERS:]
        sums = [sum(side.get(name, 0) for name in rest) for side in (one, other)]
        rows.append((f"{len(rest)} more", *_pair(*sums)))
    return rows


def _pair(a: int | None, b: int | None) -> tuple[str, str, str]:
    more = (b or 0) - (a or 0)
    sizes = (_NONE if size is None else format_bytes(size) for size in (a, b))
    first, second = sizes
    return first, second, f"{'-' if more < 0 else '+'}{format_bytes(abs(more))}"


def _batches(graphs: tuple[Graph, Graph]) -> str:
    a, b = (graph.batch_size for graph in graphs)
    return _factor(a, b) if a and b else ""


def _factor(a: float, b: float) -> str:
    if a == b:
        return "the same"
    return f"x {b / a:.3g}" if a > 0 else _NONE


def _name(graph: Graph) -> str:
    return f"{graph.name}, batch {graph.batch_size}" if graph.batch_size else graph.name
