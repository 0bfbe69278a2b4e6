"""What XLA:CPU has to keep and to compute early, so that a step holds what its schedule says.

*Pins.* XLA:CPU recomputes cheap ops in each fusion that reads them, whatever the sizes: for example, it holds
dropout's random bits until the backward pass, instead of the mask of a quarter of the bytes. A conditional is
not fused, so its result stays in memory. On a GPU it would stop the stream, so nothing is pinned there.

*Gates.* XLA:CPU postpones weight gradients, since they free little. But they read the gradients of whole
layers, which stay live until then. So the next matrix product waits for them, by a select on its smallest
operand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from checkmate.ir import Graph

_SMALLER = 2  # a pinned result is at least this many times smaller than its largest operand
_LEAST = 16 * 2**10  # bytes; a smaller value is not worth a conditional
_LEAST_SUM = 2**20  # bytes of a pinned sum; smaller ones were not measured
_COPIED = 4  # a select may copy an operand that is this many times smaller than the largest
_REACH = 200  # steps that a gradient is moved at most

Value = TypeVar("Value", bound=Hashable)
Tensor = TypeVar("Tensor")
Instance = tuple[int, int]  # a value, and the position of the schedule at which it is made


@dataclass(frozen=True)
class Stage(Generic[Value]):
    """An op, a node of the graph, or a fusion, as far as XLA:CPU's choices depend on it. ``product``: a
    matrix product or convolution. ``fuses``: XLA may fuse it with the ops that make its operands. ``cheap``:
    XLA:CPU recomputes it in each reader. ``sums``: it is a reduction. ``convolves``: it is a convolution.
    ``light``: outputs that XLA:CPU recomputes even from larger operands."""

    reads: tuple[Value, ...]
    writes: tuple[Value, ...]
    product: bool = False
    fuses: bool = True
    cheap: bool = False
    sums: bool = False
    convolves: bool = False
    light: frozenset[Value] = frozenset()


Stages = Sequence[Stage[Value]]


def small_results(stages: Stages[Value], sizes: Mapping[Value, int], *, readers: int) -> frozenset[Value]:
    """Return the light values that are much smaller than their operands and have at least ``readers`` that
    XLA may fuse them into. (A value that a matrix product reads is kept by XLA anyway.)"""
    reading = Counter(value for stage in stages if stage.fuses for value in set(stage.reads))
    found = set()
    for stage in stages:
        most = max((sizes[value] for value in stage.reads), default=0)
        for value in stage.light:
            size = sizes[value]
            if reading[value] >= readers and size >= _LEAST and _SMALLER * size <= most:
                found.add(value)
    return frozenset(found)


def sums_of_large(stages: Stages[Value], sizes: Mapping[Value, int]) -> frozenset[Value]:
    """Return the values that XLA:CPU would recompute in each reader as a sum of two or more results of about
    their size. Pinning them saves time: an MLP-Mixer within 30 % took 16 % more time than the plain step
    without, and 32 % less with it. Sums of which half or more are convolutions are not pinned: a ResNet would
    hold more, and take no less time."""
    readers = Counter(value for stage in stages for value in stage.reads)
    fused = {value for stage in stages if stage.fuses for value in stage.reads}
    convolved = {value for stage in stages if stage.convolves for value in stage.writes}
    behind: dict[Value, frozenset[Value]] = {}
    found = set()
    for stage in stages:
        if not stage.cheap:
            continue
        leaves = frozenset(leaf for value in stage.reads for leaf in behind.get(value, (value,)))
        for value in stage.writes:
            large = {leaf for leaf in leaves if _SMALLER * sizes[leaf] >= sizes[value]}
            added = len(large) > 1 and 2 * len(large & convolved) < len(large)
            if sizes[value] >= _LEAST_SUM and added and readers[value] > 1 and value in fused:
                found.add(value)
            else:
                behind[value] = leaves
    return frozenset(found)


def held_results(stages: Stages[int], sizes: Sequence[int], steps: Sequence[int]) -> frozenset[Instance]:
    """Return the cheap results to pin because the schedule keeps them past a matrix product, but not the
    larger values that they are computed from. Without a pin, XLA:CPU would hold those values and recompute
    the result: for example a convolution and the tensor added to it, where the schedule keeps only the
    sum."""
    products = [0]
    for step in steps:
        products.append(products[-1] + stages[step].product)
    last, behind = _lives(stages, steps)
    found = set()
    for made, leaves in behind.items():
        end, size = last.get(made, made[1]), sizes[made[0]]
        gone = sum(sizes[leaf[0]] for leaf in leaves if last.get(leaf, leaf[1]) < end)
        if size >= _LEAST and gone > size and products[end] > products[made[1] + 1]:
            found.add(made)
    return frozenset(found)


def _lives(
    stages: Stages[int], steps: Sequence[int]
) -> tuple[dict[Instance, int], dict[Instance, frozenset[Instance]]]:
    last: dict[Instance, int] = {}
    behind: dict[Instance, frozenset[Instance]] = {}
    newest: dict[int, Instance] = {}
    for position, step in enumerate(steps):
        stage = stages[step]
        read = [newest[value] for value in stage.reads if value in newest]
        last.update((each, position) for each in read)
        leaves = frozenset(leaf for each in read for leaf in behind.get(each, (each,)))
        newest.update((value, (value, position)) for value in stage.writes)
        if stage.cheap:
            behind.update(((value, position), leaves) for value in stage.writes)
    return last, behind


def ends_of_graph(graph: Graph) -> frozenset[int]:
    """Return the nodes whose results are read only by updates (nodes without outputs, or light ops): weight
    gradients."""
    going_on = {value for op in graph.ops if op.outputs for value in op.inputs}
    return frozenset(
        node
        for node, op in enumerate(graph.ops)
        if going_on.isdisjoint(op.outputs) and not any(graph.values[value].keep for value in op.outputs)
    )


def ends_of_results(
    stages: Stages[Value], sizes: Mapping[Value, int], results: frozenset[Value]
) -> frozenset[Value]:
    """Return the values that are read only to compute ``results``: weight gradients, if the step updates the
    weights. A bias's gradient may be summed in two stages; its partial sum is included."""
    found = _read_for(stages, results)
    small = {
        value
        for stage in stages
        if stage.sums and found.issuperset(stage.writes)
        for value in stage.reads
        if sizes[value] <= 2 * max(sizes[made] for made in stage.writes)
    }
    return found | (_read_for(stages, found) & small)


def _read_for(stages: Stages[Value], written: frozenset[Value]) -> frozenset[Value]:
    other = {value for stage in stages if not written.issuperset(stage.writes) for value in stage.reads}
    return frozenset(value for stage in stages for value in stage.reads) - other


def ends_first(stages: Stages[int], ends: frozenset[int], steps: Sequence[int]) -> list[int]:
    """Return the positions of ``steps`` in an order with weight gradients first. XLA:CPU starts ops as soon
    as their operands are ready, so a filter's gradient would run together with the product for the layer
    before, and its copies, the incoming gradient and that product's result would be live at once. Here a
    weight gradient, with the steps that it needs, comes before the product that reads the same incoming
    gradient."""
    order: list[int] = []
    for position, step in enumerate(steps):
        order.append(position)
        if step not in ends or not stages[step].product:
            continue
        slopes, needed, moved = set(stages[step].reads), set(stages[step].reads), [position]
        for place in range(len(order) - 2, max(-1, len(order) - _REACH), -1):
            number = steps[order[place]]
            other = stages[number]
            makes_operand = not needed.isdisjoint(other.writes)
            if makes_operand and other.product and not slopes.isdisjoint(other.writes):
                break
            if makes_operand:
                moved.append(order[place])
                needed.update(other.reads)
            elif other.product and number not in ends and not slopes.isdisjoint(other.reads):
                kept = [each for each in order[place:] if each not in moved]
                order[place:] = [*reversed(moved), *kept]
                break
    return order


@dataclass(eq=False)
class Gate(Generic[Tensor]):
    """Makes each matrix product wait for the weight gradients since the last one that waited."""

    passed: list[Tensor] = field(default_factory=list)

    def waits(self, *, product: bool, end: bool) -> bool:
        return bool(self.passed) and product and not end

    def opened(self, least: int, most: int) -> list[Tensor]:
        """Return the gradients that a product is to wait for; its smallest and largest operand have ``least``
        and ``most`` bytes. None of them, if a select on the smallest would copy too much."""
        if _COPIED * least > most:
            return []
        found, self.passed = self.passed, []
        return found

    def note(self, made: Iterable[Tensor], *, product: bool, sums: bool) -> None:
        if product or sums:
            self.passed += made
