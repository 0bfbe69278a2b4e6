"""The training step as a graph of ops and values.

Ops stand in a valid execution order by construction. One op may produce several values; each value is
retained, freed and counted separately. A value without a producer (a parameter, an input) is *fixed*:
``fixed_bytes`` covers it, and it is never counted. What ``alias_of``, ``takes_over``, ``keep`` and
``recomputable`` mean for memory is defined in ``checkmate.ir.timeline``.
"""

from __future__ import annotations

import hashlib
import math
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.errors import GraphError
from checkmate.ir.arrays import Rows, read_only
from checkmate.ir.origin import Origin
from checkmate.ir.shown import Shown
from checkmate.runner import Runner, runner_of

_LARGEST_TOTAL = 2**62  # bytes; keeps every sum of sizes inside int64


class Phase(StrEnum):
    """The part of the training step that an op belongs to."""

    FORWARD = "forward"
    LOSS = "loss"
    BACKWARD = "backward"
    UPDATE = "update"


class CostUnit(StrEnum):
    """The unit of an op's cost."""

    SECONDS = "seconds"
    FLOP = "flop"
    UNIT = "unit"


class CostOrigin(StrEnum):
    """How the costs were obtained."""

    MEASURED = "measured"
    ANALYTIC = "analytic"
    GIVEN = "given"


@dataclass(frozen=True)
class Device:
    """The device a graph was profiled on; ``memory_bytes`` is 0 if unknown."""

    name: str
    kind: str
    memory_bytes: int = 0


@dataclass(frozen=True)
class Value:
    """One tensor. ``bytes`` is its size. A view shares the buffer of the value ``alias_of``."""

    name: str
    bytes: int
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    keep: bool = False
    alias_of: int | None = None


@dataclass(frozen=True)
class Op:
    """One operation.

    ``cost``: of one execution, in the graph's unit.
    ``group``: its Keras layer.
    ``inputs``, ``outputs``: ids of the values it reads and writes.
    ``takes_over``: pairs (output, input). The output may be written over the input's buffer if that dies in
    this step.
    """

    name: str
    type: str = ""
    phase: Phase = Phase.FORWARD
    group: str = ""
    cost: float = 0.0
    workspace_bytes: int = 0
    recomputable: bool = True
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    takes_over: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Graph(Shown):
    """A training step: ``n`` ops in a valid order over ``m`` values.

    ``fixed_bytes``: bytes of parameters, optimizer state and inputs, which are always live; ``fixed`` splits
    them by name.
    ``metadata``: JSON-able facts about the origin (model, loss, optimizer, shapes); no algorithm depends on
    them. ``origin`` has those that this program writes, by type.

    Raises:
        GraphError: a rule is broken; the message names the field and the offending op or value.
    """

    name: str
    ops: tuple[Op, ...]
    values: tuple[Value, ...]
    fixed_bytes: int = 0
    fixed: Mapping[str, int] = field(default_factory=dict)
    batch_size: int | None = None
    device: Device | None = None
    cost_unit: CostUnit = CostUnit.UNIT
    cost_origin: CostOrigin = CostOrigin.GIVEN
    metadata: Mapping[str, Any] = field(default_factory=dict)
    declared_fingerprint: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "ops", tuple(self.ops))
        object.__setattr__(self, "values", tuple(self.values))
        object.__setattr__(self, "fixed", MappingProxyType(dict(self.fixed)))
        object.__setattr__(self, "metadata", MappingProxyType(dict(self.metadata)))
        _check_numbers(self)
        _check_structure(self)

    def __repr__(self) -> str:
        return f"Graph({reprlib.repr(self.name)}, {self.n} ops, {self.m} values)"

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what copies and pickles carry; it is checked again."""
        facts = [getattr(self, entry.name) for entry in fields(self)]
        return Graph, tuple(dict(fact) if isinstance(fact, MappingProxyType) else fact for fact in facts)

    @cached_property
    def origin(self) -> Origin:
        return Origin.of(self.metadata)

    @property
    def runner(self) -> Runner:
        return runner_of(self.metadata)

    @property
    def device_kind(self) -> str:
        return "cpu" if self.device is None else self.device.kind

    @property
    def n(self) -> int:
        return len(self.ops)

    @property
    def m(self) -> int:
        return len(self.values)

    @cached_property
    def cost(self) -> NDArray[np.float64]:
        """Return float64[n]: the cost of one execution per op."""
        return read_only([op.cost for op in self.ops], np.float64)

    @cached_property
    def base_cost(self) -> float:
        return math.fsum(op.cost for op in self.ops)

    @cached_property
    def workspace_bytes(self) -> NDArray[np.int64]:
        """Return int64[n]: scratch bytes while an op executes."""
        return read_only([op.workspace_bytes for op in self.ops], np.int64)

    @cached_property
    def recomputable(self) -> NDArray[np.bool_]:
        """Return bool[n]: whether an op may run more than once."""
        return read_only([op.recomputable for op in self.ops], np.bool_)

    @cached_property
    def late(self) -> NDArray[np.bool_]:
        """Return bool[n]: whether an op is late. Late ops belong to the backward pass or the update."""
        return read_only([op.phase in (Phase.BACKWARD, Phase.UPDATE) for op in self.ops], np.bool_)

    @cached_property
    def value_bytes(self) -> NDArray[np.int64]:
        """Return int64[m]: the size of each value. A buffer counts with its owner's size."""
        return read_only([value.bytes for value in self.values], np.int64)

    @cached_property
    def keep(self) -> NDArray[np.bool_]:
        """Return bool[m]: whether a value must be live at the end."""
        return read_only([value.keep for value in self.values], np.bool_)

    @cached_property
    def alias_of(self) -> NDArray[np.int32]:
        """Return int32[m]: the value that each is directly a view of; -1 for no view."""
        return read_only([-1 if v.alias_of is None else v.alias_of for v in self.values], np.int32)

    @cached_property
    def owner(self) -> NDArray[np.int32]:
        """Return int32[m]: the root of each value's chain of views; itself where it is no view."""
        owner = np.arange(self.m, dtype=np.int32)
        for value, parent in sorted_views(self):
            owner[value] = owner[parent]
        return read_only(owner, np.int32)

    @cached_property
    def producer(self) -> NDArray[np.int32]:
        """Return int32[m]: the op that writes each value; -1 for fixed values."""
        producer = np.full(self.m, -1, np.int32)
        for index, op in enumerate(self.ops):
            for value in op.outputs:
                producer[value] = index
        return read_only(producer, np.int32)

    @cached_property
    def op_inputs(self) -> Rows:
        """Return the distinct produced values that each op reads. Fixed values are never counted."""
        producer = self.producer
        return Rows.of([v for v in dict.fromkeys(op.inputs) if producer[v] >= 0] for op in self.ops)

    @cached_property
    def op_outputs(self) -> Rows:
        return Rows.of(op.outputs for op in self.ops)

    @cached_property
    def value_readers(self) -> Rows:
        return self.op_inputs.inverse(self.m)

    @cached_property
    def predecessors(self) -> Rows:
        producer = self.producer
        return Rows.of(sorted({int(producer[v]) for v in self.op_inputs[i].tolist()}) for i in range(self.n))

    @cached_property
    def successors(self) -> Rows:
        return self.predecessors.inverse(self.n)

    @cached_property
    def fingerprint(self) -> str:
        """Return a hash of everything that decides validity and memory: structure and sizes, not names and
        costs.
        """
        digest = hashlib.sha256(b"checkmate-graph-1")
        digest.update(str(self.fixed_bytes).encode())
        for op in self.ops:
            fields = (
                op.type,
                op.phase,
                op.workspace_bytes,
                op.recomputable,
                op.inputs,
                op.outputs,
                op.takes_over,
            )
            digest.update(repr(tuple(map(str, fields))).encode())
        for value in self.values:
            digest.update(repr((value.bytes, value.keep, value.alias_of)).encode())
        return f"sha256:{digest.hexdigest()}"

    def with_costs(self, costs: Iterable[float], unit: CostUnit, origin: CostOrigin) -> Graph:
        ops = tuple(replace(op, cost=float(cost)) for op, cost in zip(self.ops, costs, strict=True))
        return replace(self, ops=ops, cost_unit=unit, cost_origin=origin)

    def accepts_fingerprint(self, fingerprint: str) -> bool:
        return fingerprint in (self.fingerprint, self.declared_fingerprint)


def sorted_views(graph: Graph) -> list[tuple[int, int]]:
    """Return (view, parent) pairs, parents first."""
    depth: dict[int, int] = {}
    for start in range(graph.m):
        chain, value = [], start
        while value not in depth and (parent := graph.values[value].alias_of) is not None:
            chain.append(value)
            value = parent
        above = depth.get(value, 0)
        depth.update((entry, above + level) for level, entry in enumerate(reversed(chain), 1))
    ordered = sorted(depth, key=lambda value: (depth[value], value))
    return [(value, parent) for value in ordered if (parent := graph.values[value].alias_of) is not None]


@dataclass
class GraphBuilder:
    """Collect ops and values; ``build()`` checks and freezes them."""

    name: str = "graph"
    ops: list[Op] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)

    def value(self, name: str, bytes: int, **fields: Any) -> int:
        self.values.append(Value(name, bytes, **fields))
        return len(self.values) - 1

    def op(self, name: str, inputs: Sequence[int] = (), outputs: Sequence[int] = (), **fields: Any) -> int:
        self.ops.append(Op(name, inputs=tuple(inputs), outputs=tuple(outputs), **fields))
        return len(self.ops) - 1

    def build(self, **fields: Any) -> Graph:
        return Graph(self.name, tuple(self.ops), tuple(self.values), **fields)


def _require_whole(number: object, what: str) -> None:
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
        raise GraphError(f"{what} is {number!r}, not a whole number")
    if number < 0:
        raise GraphError(f"{what} is negative ({number})")
    if number >= _LARGEST_TOTAL:
        raise GraphError(f"{what} is larger than any memory ({number})")


def _check_numbers(graph: Graph) -> None:
    _require_whole(graph.fixed_bytes, "fixed_bytes")
    total = graph.fixed_bytes
    for index, value in enumerate(graph.values):
        _require_whole(value.bytes, f"values[{index}].bytes ({value.name!r})")
        total += value.bytes
    for index, op in enumerate(graph.ops):
        if isinstance(op.cost, bool) or not isinstance(op.cost, (int, float, np.number)):
            raise GraphError(f"ops[{index}].cost ({op.name!r}) is {op.cost!r}, not a number")
        if not math.isfinite(op.cost) or op.cost < 0:
            raise GraphError(
                f"ops[{index}].cost ({op.name!r}) is {op.cost}, not a finite number of at least 0"
            )
        _require_whole(op.workspace_bytes, f"ops[{index}].workspace_bytes ({op.name!r})")
        total += op.workspace_bytes
    if total >= _LARGEST_TOTAL:
        raise GraphError(f"the sizes add up to {total} bytes, more than any memory")


def _check_structure(graph: Graph) -> None:
    if not graph.ops:
        raise GraphError("ops is empty: there is nothing to schedule")
    producer: dict[int, int] = {}
    for index, op in enumerate(graph.ops):
        for kind, ids in (("inputs", op.inputs), ("outputs", op.outputs)):
            for value in ids:
                if (
                    isinstance(value, bool)
                    or not isinstance(value, (int, np.integer))
                    or not 0 <= value < graph.m
                ):
                    raise GraphError(
                        f"ops[{index}].{kind} ({op.name!r}) names value {value!r}; there are {graph.m}"
                    )
        for value in op.outputs:
            if value in producer:
                raise GraphError(
                    f"value {value} {graph.values[value].name!r} is written by op {producer[value]} "
                    f"{graph.ops[producer[value]].name!r} and again by op {index} {op.name!r}"
                )
            producer[value] = index
    for index, op in enumerate(graph.ops):
        for value in op.inputs:
            if producer.get(value, -1) >= index:
                source = graph.ops[producer[value]].name
                raise GraphError(
                    f"ops[{index}] ({op.name!r}) reads value {value} before op {producer[value]} "
                    f"({source!r}) writes it: the ops are not in an execution order, or form a cycle"
                )
        _check_takes_over(graph, index, op)
    _check_views(graph, producer)


def _check_takes_over(graph: Graph, index: int, op: Op) -> None:
    outputs, inputs = (set(op.outputs), set(op.inputs)) if op.takes_over else (set(), set())
    for pair in op.takes_over:
        if len(pair) != 2 or pair[0] not in outputs or pair[1] not in inputs:
            raise GraphError(
                f"ops[{index}].takes_over ({op.name!r}) has {list(pair)}, "
                "not an output and an input of that op"
            )


def _check_views(graph: Graph, producer: Mapping[int, int]) -> None:
    """Raise unless a view's parent is among its op's inputs, or outputs before it; a fixed one's, an earlier
    fixed value.
    """
    place = {value: at for op in graph.ops for at, value in enumerate(op.outputs)}
    inputs: dict[int, set[int]] = {}  # of the ops that make views
    for value, entry in enumerate(graph.values):
        parent = entry.alias_of
        if parent is None:
            continue
        if isinstance(parent, bool) or not isinstance(parent, (int, np.integer)) or not 0 <= parent < graph.m:
            raise GraphError(
                f"values[{value}].alias_of ({entry.name!r}) is {parent!r}; there are {graph.m} values"
            )
        op_index = producer.get(value)
        if op_index is None:
            if parent in producer or parent >= value:
                raise GraphError(
                    f"values[{value}].alias_of ({entry.name!r}): a fixed value cannot be a view of {parent}"
                )
            continue
        op = graph.ops[op_index]
        earlier = producer.get(parent) == op_index and place[parent] < place[value]
        if op_index not in inputs:
            inputs[op_index] = set(op.inputs)
        if parent in producer and not earlier and parent not in inputs[op_index]:
            raise GraphError(
                f"values[{value}].alias_of ({entry.name!r}) is {parent} {graph.values[parent].name!r}, "
                f"which its op {op_index} {op.name!r} does not read"
            )
