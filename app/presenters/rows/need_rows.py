"""What an op needs in memory to run, value by value; no Qt."""

from __future__ import annotations

from dataclasses import dataclass

from app.presenters.words.wording import short_name, signed_bytes
from app.state.solve import Tightest
from checkmate.ir.graph import Graph
from checkmate.memory.hotspot import FIXED, TAKEN_OVER, WORKSPACE
from checkmate.solvers.bounds import OpNeed, op_need
from checkmate.units import format_bytes, plural

READ, MADE, HELD, KEPT = "reads", "makes", "held", "kept"


@dataclass(frozen=True)
class NeedRow:
    """One part of a need: what the op does with it, and its whole name.

    ``role`` is the first of these, ``name`` the second. ``op`` makes it; -1 for what no op makes.
    """

    role: str
    name: str
    bytes: int
    op: int = -1


def rows_of_op(graph: Graph, op: int, tightest: Tightest | None = None) -> list[NeedRow]:
    """Return the parts of what ``op`` needs to run; they add up to the need.

    ``tightest``: what is known to need too much; if it is this op, other values that are held across it are
    among the parts.
    """
    own = tightest is not None and tightest.op == op and not tightest.at_end
    need = op_need(graph, op, tightest.values if tightest is not None and own else ())
    rows = [
        _value_row(graph, role, value)
        for role, values in ((READ, need.read), (MADE, need.made), (HELD, need.held))
        for value in values
    ]
    return rows + _rest(need)


def rows_at_end(graph: Graph, tightest: Tightest) -> list[NeedRow]:
    """Return the parts of what is kept at the end of the step."""
    kept = [_value_row(graph, KEPT, value) for value in tightest.values]
    return [*kept, NeedRow("", FIXED, graph.fixed_bytes)]


def _value_row(graph: Graph, role: str, value: int) -> NeedRow:
    return NeedRow(role, graph.values[value].name, int(graph.value_bytes[value]), int(graph.producer[value]))


def _rest(need: OpNeed) -> list[NeedRow]:
    rest = (
        NeedRow("", WORKSPACE, need.workspace_bytes),
        NeedRow("", FIXED, need.fixed_bytes),
        NeedRow("", TAKEN_OVER, -need.taken_over_bytes),
    )
    return [row for row in rest if row.bytes]


def why_nothing_fits(graph: Graph, tightest: Tightest) -> str:
    """Say what alone needs more than the budget, and of which parts."""
    whole = format_bytes(tightest.bytes)
    if tightest.at_end:
        rows = rows_at_end(graph, tightest)
        head = f"What is kept at the end of the step needs {whole}"
    else:
        rows = rows_of_op(graph, tightest.op, tightest)
        entry = graph.ops[tightest.op]
        layer = f" of layer {entry.group}" if entry.group else ""
        head = f"{short_name(entry.name)}{layer} needs {whole} while it runs, in any order"
    return f"{head}: {_parts(rows)}."


def _parts(rows: list[NeedRow]) -> str:
    said = {READ: "it reads", MADE: "it makes", HELD: "held meanwhile", KEPT: "kept"}
    found = []
    for role, words in said.items():
        sizes = [row.bytes for row in rows if row.role == role]
        if sizes:
            found.append(f"{plural(len(sizes), 'value')} {words} ({format_bytes(sum(sizes))})")
    rest = [row for row in rows if not row.role]
    found += [f"{' and '.join(row.name.rsplit(', ', 1))} ({signed_bytes(row.bytes)})" for row in rest]
    return ", ".join(found)
