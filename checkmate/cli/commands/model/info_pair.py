"""Print two graphs side by side: ``checkmate info A.json B.json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkmate.ir.graph import Graph
from checkmate.machine.cost_origin import cost_text, origin_words
from checkmate.text_table import aligned_lines
from checkmate.units import format_bytes

FORMAT, VERSION = "checkmate-graphs", 1
_MOST_LAYERS = 12
_NONE = "-"

Facts = Mapping[str, Any]


def pair_facts(a: Facts, b: Facts) -> dict[str, Any]:
    """Return what ``--json`` prints: the facts of each graph."""
    return {"format": FORMAT, "version": VERSION, "graphs": [dict(a), dict(b)]}


def pair_text(graphs: tuple[Graph, Graph], facts: tuple[Facts, Facts]) -> str:
    """Return the facts of both in a table, and their peaks by layer."""
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
