"""A path-cut program in whole numbers only, as CP-SAT takes it.

It is sent as JSON to the process that solves it. Bytes are exact. Costs are rounded down, so what is proved
of the task holds for the program.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from checkmate.solvers.pathcut.cuts import CutProgram

# Parts of a program's unit of cost. Finer costs take longer: a solution may be better by very little then.
_PARTS = 1e5


@dataclass(frozen=True)
class SatTask:
    """Minimise the cost of columns that are 0 or 1.

    ``clauses``: (columns, others): one of the columns is 1, or one of the others is 0. ``sums``: (columns,
    factors, low): the sum is at least ``low``. ``cost``: of each column. ``most``: no solution above it is
    wanted; None: all are. ``hint``: the values of the first columns in a solution; it may be empty.
    """

    cost: list[int]
    clauses: list[tuple[list[int], list[int]]]
    sums: list[tuple[list[int], list[int], int]]
    most: int | None
    hint: list[int]
    seconds: float
    workers: int

    def to_json(self) -> dict[str, Any]:
        """Return plain lists and dictionaries."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        return cls(**data)


def parts_of(program: CutProgram) -> float:
    """Return how many parts a unit of the program's cost has in its task.

    One where all costs are whole, so that nothing is rounded.
    """
    return 1.0 if bool((program.cost == np.floor(program.cost)).all()) else _PARTS


def sat_task(
    program: CutProgram, *, start: NDArray[np.float64] | None, most: float, seconds: float, workers: int
) -> SatTask:
    """Return the task of ``program``.

    ``start``: the values of its first columns in a solution. ``most``: what that costs, in the program's
    unit; infinite if there is none.
    """
    parts, rows = parts_of(program), program.rows
    clauses: list[tuple[list[int], list[int]]] = []
    sums: list[tuple[list[int], list[int], int]] = []
    for row, low in enumerate(rows.low):
        where = slice(rows.starts[row], rows.starts[row + 1])
        columns, factors = rows.columns[where], [round(entry) for entry in rows.entries[where]]
        negative = [column for column, factor in zip(columns, factors, strict=True) if factor < 0]
        if all(factor in (1, -1) for factor in factors) and round(low) == 1 - len(negative):
            clauses.append(([c for c, factor in zip(columns, factors, strict=True) if factor > 0], negative))
        else:
            sums.append((columns, factors, round(low)))
    return SatTask(
        cost=[math.floor(cost * parts) for cost in program.cost.tolist()],
        clauses=clauses,
        sums=sums,
        most=None if math.isinf(most) else math.ceil((most - program.offset) * parts),
        hint=[] if start is None else [round(value) for value in start.tolist()],
        seconds=seconds,
        workers=workers,
    )


def read_answer(line: str, columns: int) -> dict[str, Any]:
    """Return a line of the process as a message.

    ``columns``: how many the task has.

    Raises:
        ValueError: it was cut or damaged.
    """
    try:
        message: dict[str, Any] = json.loads(line)
        if message["type"] not in ("bound", "done", "error"):
            raise ValueError(f"{message['type']!r} is no message")
        if message["type"] != "error":
            message["bound"] = float(message["bound"])
        if message["type"] == "done":
            message["status"], ones = str(message["status"]), message["ones"]
            if ones is not None and not all(type(each) is int and 0 <= each < columns for each in ones):
                raise ValueError("it names no column")
    except (LookupError, TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    return message
