"""The task of the interval model, in whole numbers only.

It is sent to the process that solves it.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from checkmate.ir.graph import Graph
from checkmate.solvers.shared.buffers import buffer_owners, take_over_groups
from checkmate.solvers.shared.retention import must_run_once

_COST_STEPS = 10**9  # a cost in seconds is sent as so many parts of the total, rounded down


@dataclass(frozen=True)
class IntervalOp:
    """One op of the task.

    ``reads``, ``writes``: values with a buffer.
    ``cost``, ``workspace``: in units.
    ``copies``: the most computations of it.
    ``take_overs``: (owners, how many of them may be taken over).
    """

    reads: list[int]
    writes: list[int]
    cost: int
    workspace: int
    copies: int
    take_overs: list[tuple[list[int], int]]


@dataclass(frozen=True)
class IntervalValue:
    """A value with a buffer.

    ``size``: bytes in units, 0 for a view.
    ``parent``: the value it is a view of, -1 for none.
    """

    producer: int
    size: int
    parent: int
    keep: bool


@dataclass(frozen=True)
class IntervalTask:
    """Minimise the cost within a limit on memory.

    ``room``: the budget less fixed bytes, in units.
    ``values``: by id; those without bytes are left out.
    ``hint``: steps in the stages of the given order, or nothing.
    ``seconds``, ``gap``, ``workers``, ``seed``: as in the options.
    """

    ops: list[IntervalOp]
    values: dict[int, IntervalValue]
    room: int
    hint: list[int]
    seconds: float
    gap: float
    workers: int
    seed: int

    def to_json(self) -> dict[str, Any]:
        """Return plain lists and dictionaries."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> IntervalTask:
        ops = [IntervalOp(**op) for op in data["ops"]]
        values = {int(value): IntervalValue(**entry) for value, entry in data["values"].items()}
        return cls(**{**data, "ops": ops, "values": values})


def event_of(stage: int, op: int) -> int:
    """Return the event at which ``op`` runs in ``stage``.

    Events in order are the steps of a schedule in stages.
    """
    return stage * (stage + 1) // 2 + op


def op_at(event: int) -> int:
    """Return the op of an event."""
    stage = (math.isqrt(8 * event + 1) - 1) // 2
    return event - stage * (stage + 1) // 2


def read_answer(line: str, ops: int) -> dict[str, Any]:
    """Return a line of the child as a message; a solution has ``steps``.

    ``ops``: how many the graph has.

    Raises:
        ValueError: it was cut or damaged.
    """
    try:
        message: dict[str, Any] = json.loads(line)
        match message["type"]:
            case "solution":
                message["steps"] = [op_at(int(event)) for event in message["events"]]
                if not all(0 <= op < ops for op in message["steps"]):
                    raise ValueError("it names no op")
            case "bound":
                message["bound"] = float(message["bound"])
            case "done":
                message["bound"], message["status"] = float(message["bound"]), str(message["status"])
            case "error":
                message["message"] = str(message["message"])
            case "ready":
                pass
            case other:
                raise ValueError(f"{other!r} is no message")
    except (LookupError, TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    return message


def cost_unit(graph: Graph) -> float:
    """Return the unit of the task's costs.

    It is 1 if all costs are whole numbers, else a small part of the total.
    """
    total = float(graph.cost.sum())
    whole = bool((graph.cost == np.floor(graph.cost)).all()) and total < 2**40
    return 1.0 if whole or total <= 0 else total / _COST_STEPS


def interval_task(
    graph: Graph, budget_bytes: int, *, copies: int, recompute_gradients: bool, hint: list[int], **how: Any
) -> IntervalTask:
    """Return the task for ``graph``.

    Bytes are divided by their greatest common divisor, so they are exact.
    """
    producer, owner, alias = graph.producer.tolist(), graph.owner.tolist(), graph.alias_of.tolist()
    sized = {
        v
        for v in range(graph.m)
        if producer[v] >= 0 and producer[owner[v]] >= 0 and graph.values[owner[v]].bytes
    }
    bytes_ = np.append(graph.value_bytes[buffer_owners(graph)], graph.workspace_bytes)
    unit = int(np.gcd.reduce(bytes_)) or 1
    once = must_run_once(graph, recompute_gradients=recompute_gradients)
    costs = cost_unit(graph)
    ops = [
        IntervalOp(
            reads=[v for v in graph.op_inputs[i].tolist() if v in sized],
            writes=[v for v in op.outputs if v in sized],
            cost=math.floor(op.cost / costs),
            workspace=op.workspace_bytes // unit,
            copies=1 if once[i] or sized.isdisjoint(op.outputs) else copies,
            take_overs=[(list(group.inputs), group.most) for group in take_over_groups(graph, i)],
        )
        for i, op in enumerate(graph.ops)
    ]
    values = {
        v: IntervalValue(
            producer=producer[v],
            size=graph.values[v].bytes // unit if owner[v] == v else 0,
            parent=alias[v],
            keep=graph.values[v].keep,
        )
        for v in sorted(sized)
    }
    return IntervalTask(ops, values, (budget_bytes - graph.fixed_bytes) // unit, hint, **how)
