from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.layout.grouping import LayerSizes, layers_of
from app.presenters.axes import StepAxis
from app.presenters.memory_curve import line_in_columns
from app.presenters.range_rows import Cell
from app.presenters.view_tables import ViewTable
from app.presenters.wording import batch_text
from app.state.knowledge import ListedSchedule
from checkmate.ir import CostOrigin, Graph
from checkmate.machine.cost_origin import cost_text
from checkmate.runner import TORCH
from checkmate.units import format_bytes, plural

FACTS = ("", "A", "B", "B against A")
COLUMNS = ("Layer", "Bytes A", "Bytes B", "Difference", "B / A", "Cost A", "Cost B", "Cost B / A")
LAYER, DIFFERENCE = map(COLUMNS.index, ("Layer", "Difference"))
_NONE = "–"
_NO_CELL = Cell(_NONE, -1.0)
_MOST_POINTS = 2000  # of a curve

_ORIGINS = {CostOrigin.MEASURED: "measured", CostOrigin.ANALYTIC: "estimated", CostOrigin.GIVEN: "given"}

Curve = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class Side:
    """``shown``: the schedule of its curve."""

    name: str
    shown: ListedSchedule
    plain: ListedSchedule
    known: tuple[ListedSchedule, ...]

    @property
    def graph(self) -> Graph:
        return self.plain.graph


@dataclass(frozen=True)
class LayerPair:
    """A layer's bytes and cost in each graph; None: it is not there."""

    name: str
    bytes_a: int | None
    bytes_b: int | None
    cost_a: float | None
    cost_b: float | None

    @property
    def difference(self) -> int:
        return (self.bytes_b or 0) - (self.bytes_a or 0)


def within(known: Sequence[ListedSchedule], budget_bytes: int) -> ListedSchedule:
    """The cheapest schedule within the budget; where none fits, the smallest."""
    return next((one for one in reversed(known) if one.peak_bytes <= budget_bytes), known[0])


def fact_rows(a: Side, b: Side) -> list[tuple[str, str, str, str]]:
    """For each fact: its name, A's, B's, and how they compare."""
    one_unit = a.graph.cost_unit is b.graph.cost_unit
    batches = a.graph.batch_size or 0, b.graph.batch_size or 0
    costs = a.graph.base_cost, b.graph.base_cost
    steps = cost_text(a.graph, costs[0]), cost_text(b.graph, costs[1])
    return [
        ("Graph", a.graph.name, b.graph.name, ""),
        ("Batch", _batch(a.graph), _batch(b.graph), _factor(*batches) if all(batches) else ""),
        ("Types of values", _types(a.graph), _types(b.graph), ""),
        ("Device", _device(a.graph), _device(b.graph), ""),
        ("Runs on", _target(a.graph), _target(b.graph), ""),
        ("Ops", f"{a.graph.n:,}", f"{b.graph.n:,}", _more(a.graph.n, b.graph.n)),
        ("Keep everything", *_pair(a.plain.peak_bytes, b.plain.peak_bytes)),
        ("  of it fixed", *_pair(a.graph.fixed_bytes, b.graph.fixed_bytes)),
        ("Least known", *_pair(a.known[0].peak_bytes, b.known[0].peak_bytes)),
        ("One step", *steps, _factor(*costs) if one_unit else "other units"),
        ("Costs", _costs(a.graph), _costs(b.graph), ""),
    ]


def sentence(a: Side, b: Side, pairs: Sequence[LayerPair]) -> str:
    peaks = a.plain.peak_bytes, b.plain.peak_bytes
    said = [f"Where everything is kept, B needs {_times(*peaks)} as much memory as A (predicted)"]
    if a.graph.cost_unit is b.graph.cost_unit and a.graph.base_cost > 0:
        said.append(f"and its step costs {_times(a.graph.base_cost, b.graph.base_cost)} as much")
    alone = [sum(getattr(pair, name) is None for pair in pairs) for name in ("bytes_b", "bytes_a")]
    matched = len(pairs) - sum(alone)
    others = f", {alone[0]} only in A, {alone[1]} only in B" if any(alone) else ""
    have = "has" if matched == 1 else "have"
    return f"{' '.join(said)}. {plural(matched, 'layer')} {have} the same name{others}."


def layer_pairs(a: Graph, b: Graph) -> tuple[LayerPair, ...]:
    """The layers of both by name, the largest difference of bytes first."""
    one, other = ({layer.name: layer for layer in layers_of(graph)} for graph in (a, b))
    pairs = []
    for name in dict.fromkeys((*one, *other)):
        in_a, in_b = one.get(name), other.get(name)
        pairs.append(LayerPair(name, _bytes(in_a), _bytes(in_b), _cost(a, in_a), _cost(b, in_b)))
    return tuple(sorted(pairs, key=lambda pair: -abs(pair.difference)))


def layer_cells(a: Graph, b: Graph, pairs: Sequence[LayerPair]) -> list[tuple[Cell, ...]]:
    comparable = a.cost_unit is b.cost_unit
    return [
        (
            Cell(pair.name.rsplit("/", 1)[-1], pair.name, pair.name),
            _bytes_cell(pair.bytes_a),
            _bytes_cell(pair.bytes_b),
            Cell(_signed(pair.difference), pair.difference),
            _ratio_cell(pair.bytes_a, pair.bytes_b),
            _cost_cell(a, pair.cost_a),
            _cost_cell(b, pair.cost_b),
            _ratio_cell(pair.cost_a, pair.cost_b) if comparable else _NO_CELL,
        )
        for pair in pairs
    ]


def layer_table(a: Graph, b: Graph, pairs: Sequence[LayerPair]) -> ViewTable:
    heads = "layer; activation bytes A; activation bytes B; difference, bytes"
    heads += f"; cost A, {a.cost_unit.value}; cost B, {b.cost_unit.value}"
    rows = [(one.name, one.bytes_a, one.bytes_b, one.difference, one.cost_a, one.cost_b) for one in pairs]
    return ViewTable.of(heads, rows)


def curve_of(found: ListedSchedule, *, by_share: bool) -> Curve:
    """The edges of the columns along the step, and the most that is live in each. The axis counts steps, or
    with ``by_share`` the percentage of the step's cost that is done; of its steps where nothing costs
    anything."""
    axis = StepAxis.of(found.graph, found.schedule, by_cost=by_share)
    starts = axis.columns(0, axis.count, _MOST_POINTS)
    edges = axis.edges[np.append(starts, axis.count)]
    if by_share:
        edges = 100 * (edges - edges[0]) / max(edges[-1] - edges[0], 1e-300)
    else:
        edges = edges + 1  # the first step is called 1
    return edges, line_in_columns(found.timeline.live_bytes.astype(np.float64), starts, axis.count)


def outline_of(curve: Curve) -> Curve:
    """The corners of a curve of columns."""
    edges, heights = curve
    return np.repeat(edges, 2)[1:-1], np.repeat(heights, 2)


def stairs_of(side: Side) -> Curve:
    """The frontier's corners: bytes, and extra cost in percent."""
    peaks = np.array([found.peak_bytes for found in side.known], np.float64)
    extra = np.array([100 * found.overhead for found in side.known])
    return np.repeat(peaks, 2)[1:], np.repeat(extra, 2)[:-1]


def memory_words(curves: Sequence[Curve], x: float, *, share: bool) -> str:
    """What is live in A and in B at a place on the axis of ``curve_of``."""
    said = [f"{x:.1f} % of the step" if share else f"step {max(1, round(x)):,}"]
    for letter, (edges, live) in zip("AB", curves, strict=True):
        at = max(0, int(np.searchsorted(edges, x, side="right")) - 1)
        said.append(f"{letter} {format_bytes(live[at])} live" if at < len(live) else f"{letter} has ended")
    return "\n".join(said)


def frontier_words(sides: Sequence[Side], budget_bytes: float) -> str:
    said = [f"within {format_bytes(budget_bytes)}"]
    for letter, side in zip("AB", sides, strict=True):
        fits = [one for one in side.known if one.peak_bytes <= budget_bytes]
        cost = f"+{max(0.0, 100 * fits[-1].overhead):.1f} %" if fits else "no schedule known"
        said.append(f"{letter} {cost}")
    return "\n".join(said)


def _bytes(layer: LayerSizes | None) -> int | None:
    return None if layer is None else layer.bytes(None)


def _cost(graph: Graph, layer: LayerSizes | None) -> float | None:
    return None if layer is None else math.fsum(graph.cost[list(layer.ops)].tolist())


def _costs(graph: Graph) -> str:
    return "scaled" if graph.origin.extrapolated_from_batch else _ORIGINS[graph.cost_origin]


def _batch(graph: Graph) -> str:
    return batch_text(graph).removeprefix("batch ") or "not said"


def _types(graph: Graph) -> str:
    sizes: Counter[str] = Counter()
    for value in graph.values:
        if value.alias_of is None:
            sizes[value.dtype or "not said"] += value.bytes
    whole = sum(sizes.values())
    shares = [(name, size / whole) for name, size in sizes.most_common(2)] if whole else []
    return ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares if share >= 0.005) or "not said"


def _target(graph: Graph) -> str:
    if graph.runner.backend == TORCH:
        return graph.runner.title
    if not graph.origin.target:
        return "not said"
    return "XLA" if graph.runner.compiled else "TensorFlow's executor"


def _device(graph: Graph) -> str:
    return graph.device.name if graph.device is not None and graph.device.kind != "none" else "not said"


def _pair(a: int, b: int) -> tuple[str, str, str]:
    return format_bytes(a), format_bytes(b), _factor(a, b)


def _more(a: int, b: int) -> str:
    return "the same" if a == b else f"{b - a:+,}".replace("-", "−")


def _factor(a: float, b: float) -> str:
    if a == b:
        return "the same"
    return f"× {b / a:.3g}" if a > 0 else _NONE


def _times(a: float, b: float) -> str:
    return "just" if a == b else f"{b / a:.3g} times" if a > 0 else "more than"


def _signed(size: int) -> str:
    return "0 B" if size == 0 else f"{'−' if size < 0 else '+'}{format_bytes(abs(size))}"


def _bytes_cell(size: int | None) -> Cell:
    return _NO_CELL if size is None else Cell(format_bytes(size), float(size))


def _cost_cell(graph: Graph, cost: float | None) -> Cell:
    return _NO_CELL if cost is None else Cell(cost_text(graph, cost), cost)


def _ratio_cell(a: float | None, b: float | None) -> Cell:
    if not a or b is None:
        return _NO_CELL
    return Cell(f"× {b / a:.3g}", b / a)
