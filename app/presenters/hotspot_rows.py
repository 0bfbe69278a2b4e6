"""What fills memory at a step, and what would help there, in rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.presenters.matrix_image import Difference
from app.presenters.wording import layer_name, short_name, signed_bytes
from app.state.knowledge import ListedSchedule
from checkmate.ir import Graph
from checkmate.machine.cost_origin import cost_text
from checkmate.memory.hotspot import Moment, Reason, Share
from checkmate.memory.suggestions import Suggestion, SuggestionKind
from checkmate.units import format_bytes

CLICK = "; click to show it"  # ends the detail of a row that can be clicked
_MOST_ROWS = 60
_MOST_OF_A_KIND = {SuggestionKind.RECOMPUTE: 8, SuggestionKind.ELSEWHERE: 5, SuggestionKind.BATCH: 3}
_LOWER = (0.1, 0.3, 0.5)  # shares of the peak by which schedules of the frontier are offered
_NOTABLY = 0.99  # of the peak: a schedule with less is offered where none is that much lower


class View(StrEnum):
    VALUES = "Values"
    LAYERS = "Layers"
    REASONS = "Reasons"
    HELPS = "What helps"
    COMPARE = "A | B"


@dataclass(frozen=True)
class HotspotRow:
    """``share``: of the largest row, for a bar. ``op``: what the row is about, ``value``: the one value that
    it is about; -1 for none. ``found``: a schedule to show."""

    name: str
    figure: str
    detail: str = ""
    share: float | None = None
    op: int = -1
    found: ListedSchedule | None = None
    value: int = -1

    @property
    def tip(self) -> str:
        return "\n".join(filter(None, (f"{self.name}  {self.figure}", self.detail)))


_WAITS = {
    Reason.FOR_BACKWARD: "waits for the backward pass",
    Reason.FOR_FORWARD: "waits for later forward ops",
    Reason.FOR_RECOMPUTATION: "waits for a recomputation",
    Reason.GRADIENT: "is gradients on their way",
    Reason.RESULT: "is the step's result",
    Reason.READ_NOW: "is read by this op",
    Reason.WRITTEN_NOW: "is written by this op",
}


def what_fills(now: Moment, *, at_peak: bool) -> str:
    """Say what most of the memory is for: ``Peak 356 MiB at up1b_norm: 267 MiB waits for the ...``"""
    place = f"{format_bytes(now.live_bytes)} at {layer_name(now.graph, now.op)}"
    most = max(
        (share for share in now.by_reason() if share.values), key=lambda share: share.bytes, default=None
    )
    said = f"{'Peak ' if at_peak else ''}{place}"
    if most is None:
        return said
    return f"{said}: {format_bytes(most.bytes)} {_WAITS[Reason(most.name)]}"


def share_rows(now: Moment, view: View) -> list[HotspotRow]:
    """The live bytes, largest first; the smallest share one row."""
    shares = {View.VALUES: now.by_value, View.LAYERS: now.by_layer, View.REASONS: now.by_reason}[view]()
    most = max((share.bytes for share in shares), default=1) or 1
    rows = [_share_row(now.graph, share, most, view) for share in shares[:_MOST_ROWS]]
    rest = shares[_MOST_ROWS:]
    if rest:
        rows.append(HotspotRow(f"and {len(rest)} more", format_bytes(sum(share.bytes for share in rest))))
    return rows


def _share_row(graph: Graph, share: Share, most: int, view: View) -> HotspotRow:
    count = len(share.values)
    op = int(graph.producer[share.values[0]]) if count else -1
    name, value = share.name, -1
    if view is View.VALUES and count:
        name, value = short_name(name), share.values[0]
    elif view is not View.VALUES and count > 1:
        name = f"{name} ({count})"
    part = max(0.0, share.bytes / most)
    return HotspotRow(name, signed_bytes(share.bytes), share=part, op=op, value=value)


def help_rows(
    graph: Graph, shown: ListedSchedule, known: Sequence[ListedSchedule], ranked: Sequence[Suggestion]
) -> list[HotspotRow]:
    """Known schedules come first, then the remedies of each kind, best first. Each row's figure is what the
    peak falls by.
    """
    rows = [_known_row(shown, found) for found in _spread(shown, known)]
    for kind, most in _MOST_OF_A_KIND.items():
        rows += [_remedy_row(graph, shown, remedy) for remedy in ranked if remedy.kind is kind][:most]
    return rows


def _spread(shown: ListedSchedule, known: Sequence[ListedSchedule]) -> list[ListedSchedule]:
    """Return the cheapest schedules that lower the peak by about ``_LOWER``; the lowest where none does."""
    lower = [found for found in known if found.peak_bytes < _NOTABLY * shown.peak_bytes]
    chosen: dict[str, ListedSchedule] = {}
    for share in _LOWER:
        enough = [found for found in lower if found.peak_bytes <= (1 - share) * shown.peak_bytes]
        best = min(enough, key=lambda each: each.overhead, default=None)
        best = best or min(lower, key=lambda each: each.peak_bytes, default=None)
        if best is not None:
            chosen.setdefault(format_bytes(best.peak_bytes), best)
    return list(chosen.values())


def _known_row(shown: ListedSchedule, found: ListedSchedule) -> HotspotRow:
    more = 100 * (found.overhead - shown.overhead)
    less = f"−{format_bytes(shown.peak_bytes - found.peak_bytes)}"
    return HotspotRow(
        f"Schedule at {format_bytes(found.peak_bytes)}", less, f"{more:+.1f} % cost{CLICK}", found=found
    )


def _remedy_row(graph: Graph, shown: ListedSchedule, remedy: Suggestion) -> HotspotRow:
    peak = format_bytes(remedy.peak_bytes)
    figure = f"−{format_bytes(shown.peak_bytes - remedy.peak_bytes)}"
    name = layer_name(graph, remedy.op) if remedy.op >= 0 else ""
    if remedy.kind is SuggestionKind.RECOMPUTE:
        cost = remedy.cost or 0.0
        percent = f" ({100 * cost / graph.base_cost:.2g} %)" if graph.base_cost > 0 else ""
        price = f"Recompute: +{cost_text(graph, cost)}{percent} · peak {peak}"
        return HotspotRow(name, figure, price, op=remedy.op)
    if remedy.kind is SuggestionKind.ELSEWHERE:
        rate = remedy.bytes_per_second
        hidden = "" if rate is None else f" · no delay above {format_bytes(rate)}/s"
        moved = format_bytes((remedy.moved_bytes or 0) / 2)
        return HotspotRow(name, figure, f"Swap out: {moved}{hidden} · peak ≥ {peak}", op=remedy.op)
    batch, size = graph.batch_size or 1, remedy.batch_size or 1
    fewer = f"{100 * (1 - size / batch):.3g} % fewer samples a step"
    return HotspotRow(f"Batch {size} instead of {batch}", figure, f"{fewer} · peak about {peak}")


def compare_rows(graph: Graph, found: Difference) -> list[HotspotRow]:
    return [
        HotspotRow(layer_name(graph, entry.op), f"A ↻{entry.in_a}  B ↻{entry.in_b}", op=entry.op)
        for entry in found.ops
    ] or [HotspotRow("A and B compute every op equally often.", "")]
