"""What is known of one op, in words, and what leads on from it; no Qt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from app.presenters.words.wording import origin_text, target_text
from app.state.knowledge import ListedSchedule
from checkmate.ir.graph import Graph, Value
from checkmate.machine.stores.cost_origin import cost_text
from checkmate.units import format_bytes, plural

_LISTED, _READERS = 6, 6
_KERNELS = {"onednn": "oneDNN's kernels", "eigen": "Eigen's kernels", "cuda": "CUDA's kernels"}


@dataclass(frozen=True)
class OpLink:
    """A value that an op reads or makes, or an op that reads from it.

    ``name`` is whole; ``figure`` and ``detail`` say more. ``op`` and ``value`` are what it leads to: -1 for a
    parameter or an input of the model, which no op makes, and for words alone. ``role`` leads to ``step``, if
    that is not -1; it counts from 0.
    """

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
    """Return what the graph says of an op, and when the schedule runs it.

    Each is a pair of a name and a text. What the graph does not say is left out.
    """
    graph, entry = shown.graph, shown.graph.ops[op]
    runs = np.flatnonzero(shown.schedule.steps == op)
    times = "once" if len(runs) == 1 else f"↻ {len(runs)} times"
    steps = _some([str(int(step) + 1) for step in runs])
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
    """Return the device that the costs are of, and its kernels if known."""
    device = graph.device
    if device is None or device.kind == "none":
        return ""
    kernels = target_text(graph) or _KERNELS.get(str(graph.metadata.get("kernels", "")), "")
    return ", ".join(part for part in (device.name or device.kind.upper(), kernels) if part)


def _taken_over(graph: Graph, op: int) -> str:
    """Say how many inputs' memory the outputs may take."""
    inputs = {taken for _, taken in graph.ops[op].takes_over}
    return f"{plural(len(inputs), 'input')}, where nothing reads it later" if inputs else ""


def made(graph: Graph, op: int) -> list[OpLink]:
    """Return the values that an op makes, largest first."""
    return [_value_link(graph, value) for value in _largest_first(graph, graph.ops[op].outputs)]


def read(graph: Graph, op: int) -> list[OpLink]:
    """Return the values that an op reads, largest first."""
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
    """Return a value's shape and dtype, if known, and what else it is."""
    shape = "" if value.shape is None else "×".join(map(str, value.shape)) or "scalar"
    parts = (
        " ".join(part for part in (shape, value.dtype or "") if part),
        "a view" if value.alias_of is not None else "",
        "kept to the end" if value.keep else "",
    )
    return " · ".join(part for part in parts if part)


def readers(shown: ListedSchedule, op: int, now: int) -> list[OpLink]:
    """Return the ops that read what an op makes.

    They stand step by step: done, now or next.

    The last one says how many are left out, if any.
    """
    graph, steps = shown.graph, shown.schedule.steps
    found = sorted({r for v in graph.ops[op].outputs for r in graph.value_readers[v].tolist()})
    times = sorted((int(at), reader) for reader in found for at in np.flatnonzero(steps == reader))
    links = [
        OpLink.at(
            at, graph.ops[reader].name, "done" if at < now else "now" if at == now else "next", op=reader
        )
        for at, reader in times[:_READERS]
    ]
    if len(times) > _READERS:
        more = f"{plural(len(times) - _READERS, 'more time')}, last at step {times[-1][0] + 1}"
        links.append(OpLink("", more, ""))
    return links


def _some(words: list[str]) -> str:
    """List a few words, and say if there are more."""
    return ", ".join(words[:_LISTED]) + (f" and {len(words) - _LISTED} more" if len(words) > _LISTED else "")
