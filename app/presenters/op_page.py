"""What is known of one op, why it runs again and what it needs in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from app.presenters.wording import origin_text, short_name, signed_bytes, target_text
from app.state.knowledge import ListedSchedule
from app.state.solve import BudgetStanding, Standing, Tightest
from checkmate.ir import Graph, Value
from checkmate.machine.cost_origin import cost_text
from checkmate.memory.hotspot import FIXED, TAKEN_OVER, WORKSPACE
from checkmate.memory.recomputed import Recomputation
from checkmate.solvers.bounds import op_need
from checkmate.units import format_bytes, plural

_LISTED, _READERS = 6, 6
_KERNELS = {"onednn": "oneDNN's kernels", "eigen": "Eigen's kernels", "cuda": "CUDA's kernels"}


@dataclass(frozen=True)
class OpLink:
    """A value that an op reads or makes, or an op that reads from it. A click on the name selects ``op`` and
    ``value``; -1 if there is nothing to select, such as for a parameter. A click on ``role`` moves to
    ``step`` (from 0) unless that is -1."""

    role: str
    name: str
    figure: str
    detail: str = ""
    op: int = -1
    value: int = -1
    step: int = -1

    @classmethod
    def at(cls, step: int, name: str, figure: str = "", detail: str = "", *, op: int = -1) -> OpLink:
        return cls(f"step {step + 1}", name, figure, detail, op, step=step)


def facts(shown: ListedSchedule, op: int) -> list[tuple[str, str]]:
    """Pairs of a name and a text. What the graph does not say is left out."""
    graph, entry = shown.graph, shown.graph.ops[op]
    runs = np.flatnonzero(shown.schedule.steps == op)
    times = "once" if len(runs) == 1 else f"↻ {len(runs)} times"
    steps = ", ".join(str(step + 1) for step in runs[:_LISTED].tolist())
    steps += f" and {len(runs) - _LISTED} more" if len(runs) > _LISTED else ""
    said = [
        ("layer", entry.group or "none"),
        ("type", entry.type.replace("+", " + ")),
        ("cost", f"{cost_text(graph, entry.cost)} ({origin_text(graph).removeprefix('costs ')})"),
        ("device", _device(graph)),
        ("workspace", format_bytes(entry.workspace_bytes) if entry.workspace_bytes else ""),
        ("computed", f"{times}, at step{'s' * (len(runs) > 1)} {steps}"),
        ("writes over", _taken_over(graph, op)),
        ("locked", _lock(shown, op)),
    ]
    return [(name, text) for name, text in said if text]


def _lock(shown: ListedSchedule, op: int) -> str:
    if shown.constrained.locked[op]:
        return "runs once; kept to its last use"
    return "" if shown.graph.ops[op].recomputable else "runs once in any case"


def _device(graph: Graph) -> str:
    device = graph.device
    if device is None or device.kind == "none":
        return ""
    kernels = target_text(graph) or _KERNELS.get(graph.origin.kernels, "")
    return ", ".join(part for part in (device.name or device.kind.upper(), kernels) if part)


def _taken_over(graph: Graph, op: int) -> str:
    inputs = {taken for _, taken in graph.ops[op].takes_over}
    return f"{plural(len(inputs), 'input')}, where nothing reads it later" if inputs else ""


def made(graph: Graph, op: int) -> list[OpLink]:
    """The values that an op makes, largest first."""
    return [_value_link(graph, value) for value in _largest_first(graph, graph.ops[op].outputs)]


def read(graph: Graph, op: int) -> list[OpLink]:
    return [_value_link(graph, value) for value in _largest_first(graph, graph.ops[op].inputs)]


def _largest_first(graph: Graph, values: Iterable[int]) -> list[int]:
    return sorted(dict.fromkeys(values), key=lambda value: (-graph.values[value].bytes, value))


def _value_link(graph: Graph, value: int) -> OpLink:
    entry, maker = graph.values[value], int(graph.producer[value])
    detail = value_words(entry)
    if maker < 0:
        detail = " · ".join(part for part in (detail, "parameter or input") if part)
    return OpLink("", entry.name, format_bytes(entry.bytes), detail, maker, value if maker >= 0 else -1)


def value_words(value: Value) -> str:
    """A value's shape and dtype, if known, and what else it is."""
    shape = "" if value.shape is None else "×".join(map(str, value.shape)) or "scalar"
    parts = (
        " ".join(part for part in (shape, value.dtype or "") if part),
        "a view" if value.alias_of is not None else "",
        "kept to the end" if value.keep else "",
    )
    return " · ".join(part for part in parts if part)


def readers(shown: ListedSchedule, op: int, now: int) -> list[OpLink]:
    """The ops that read what an op makes, step by step. The last one says how many are left out, if any."""
    graph, steps = shown.graph, shown.schedule.steps
    found = sorted({r for v in graph.ops[op].outputs for r in graph.value_readers[v].tolist()})
    times = sorted((int(at), reader) for reader in found for at in np.flatnonzero(steps == reader))
    links = []
    for at, reader in times[:_READERS]:
        when = "done" if at < now else "now" if at == now else "next"
        links.append(OpLink.at(at, graph.ops[reader].name, when, op=reader))
    if len(times) > _READERS:
        more = f"{plural(len(times) - _READERS, 'more time')}, last at step {times[-1][0] + 1}"
        links.append(OpLink("", more, ""))
    return links


_MOST = 4  # recomputations of one op


def again_rows(shown: ListedSchedule, op: int, standing: Standing | None) -> list[OpLink]:
    """What happened around each recomputation: the value is dropped, a step needs the memory, the op runs
    again, and another one reads it. The last row says how many recomputations are left out, if any."""
    runs, found = shown.runs.steps_of(op), shown.runs.recomputations_of(op, _MOST)
    rows = []
    for number, again in enumerate(found, 2):
        rows += _rows_of(shown, again, f"run {number} of {len(runs)}", standing)
    more = len(runs) - 1 - len(found)
    if more > 0:
        rows.append(OpLink("", f"{plural(more, 'more time')}, last at step {runs[-1] + 1}", ""))
    return rows


def _rows_of(
    shown: ListedSchedule, again: Recomputation, run: str, standing: Standing | None
) -> list[OpLink]:
    graph, rows, known = shown.graph, [], ""
    if again.fullest_step is None or again.fullest_bytes is None:
        known = "It was in memory until then."
    elif not again.bytes:
        known = "It has no bytes of its own."
    else:
        fullest = int(shown.schedule.steps[again.fullest_step])
        words = _fullness(again.fullest_bytes, again.bytes, *_limit(shown, standing))
        rows = [
            OpLink.at(again.freed_after, "Dropped after this step", "", words),
            OpLink.at(again.fullest_step, graph.ops[fullest].name, "fullest", op=fullest),
        ]
    rows.append(OpLink.at(again.step, "Computed again", run, known))
    if again.read_at is None or again.reader is None:
        rows.append(OpLink("", "Nothing reads it after that", ""))
    else:
        rows.append(OpLink.at(again.read_at, graph.ops[again.reader].name, "reads it", op=again.reader))
    return rows


def _limit(shown: ListedSchedule, standing: Standing | None) -> tuple[int, str]:
    """Return the bytes that the schedule had to fit into, and what they are. Any schedule but the best one
    for the budget was made for another limit, so its own peak is taken."""
    if standing is not None and standing.shown is shown and standing.fit is BudgetStanding.BEST:
        return standing.budget_bytes, "the budget"
    return shown.peak_bytes, "this schedule's peak"


def _fullness(live: int, size: int, limit: int, name: str) -> str:
    share = f"{100 * live / limit:.0f}\u00a0% of {name}"
    if live + size > limit:
        return f"Memory was full to {share}: no room for its {format_bytes(size)}."
    return f"Memory was at most {share} meanwhile: there was room for its {format_bytes(size)}."


READ, MADE, HELD, KEPT = "reads", "makes", "held", "kept"


@dataclass(frozen=True)
class NeedRow:
    """One part of a need. ``role`` is READ, MADE, HELD, KEPT or empty; ``op`` makes it, -1 for what no op
    makes."""

    role: str
    name: str
    bytes: int
    op: int = -1


def rows_of_op(graph: Graph, op: int, tightest: Tightest | None = None) -> list[NeedRow]:
    """The parts of what ``op`` needs to run; they add up to the need. If ``op`` is ``tightest``, which needs
    more than the budget, they include values held across it."""
    own = tightest is not None and tightest.op == op and not tightest.at_end
    need = op_need(graph, op, tightest.values if tightest is not None and own else ())
    rows = [
        _value_row(graph, role, value)
        for role, values in ((READ, need.read), (MADE, need.made), (HELD, need.held))
        for value in values
    ]
    rest = (
        NeedRow("", WORKSPACE, need.workspace_bytes),
        NeedRow("", FIXED, need.fixed_bytes),
        NeedRow("", TAKEN_OVER, -need.taken_over_bytes),
    )
    return [*rows, *(row for row in rest if row.bytes)]


def rows_at_end(graph: Graph, tightest: Tightest) -> list[NeedRow]:
    kept = [_value_row(graph, KEPT, value) for value in tightest.values]
    return [*kept, NeedRow("", FIXED, graph.fixed_bytes)]


def _value_row(graph: Graph, role: str, value: int) -> NeedRow:
    return NeedRow(role, graph.values[value].name, int(graph.value_bytes[value]), int(graph.producer[value]))


def why_nothing_fits(graph: Graph, tightest: Tightest) -> str:
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
