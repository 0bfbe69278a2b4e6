"""``checkmate-exploration`` version 1: a graph and all that is known of its trade-off.

``bounds`` are ``{"budget_bytes", "lower_bound"}``, null where it is proved that no schedule fits. They hold
without the ``constraints``, which are names as the solvers' ``Constraints`` writes them;
``constrained_bounds`` need not, and have a field of their own, because a program that does not know it must
not take them for bounds of the plain graph. ``measured`` has ``{"steps", "live_bytes", "peak_bytes",
"seconds", "device"}`` of each schedule that was run. A schedule of the user's own list has the field ``own``,
with ``max_overhead`` null at any cost; one that is on the frontier of constraints has ``on_frontier_of``, a
list of these; one that an export found over its budget has ``missed_budget_bytes``. ``step`` is the
playhead's, from 0; without it, that is on the peak.
"""

from __future__ import annotations

import json
import math
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from checkmate.errors import FingerprintMismatchError, FormatError
from checkmate.formats.files import Fields, read_json, write_bytes
from checkmate.formats.graph import graph_from_json, graph_to_json, require_version
from checkmate.formats.schedule import result_from_json, result_to_json
from checkmate.ir import Graph, SolveResult
from checkmate.ir.result import MeasuredSchedule

FORMAT, VERSION = "checkmate-exploration", 1
_GZIP = 31  # zlib's name for the gzip container


@dataclass(frozen=True)
class SavedOwn:
    """What the user's own list says of a schedule, asked for by ``budget_bytes``, by ``max_overhead``
    (infinite: at any cost), or by neither.
    """

    budget_bytes: int | None = None
    max_overhead: float | None = None
    name: str = ""
    note: str = ""
    pinned: bool = False
    constraints: Mapping[str, Any] | None = None


Bounds = tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class BoundsUnder:
    constraints: Mapping[str, Any]
    bounds: Bounds


@dataclass(frozen=True, eq=False)
class SavedExploration:
    """``bounds``: (budget in bytes, lower bound on the cost; infinite where no schedule fits).

    ``own``, ``under`` (the sets of constraints that a schedule is on the frontier of) and ``missed`` (the
    budget in bytes that an export found it over) are by place in ``schedules``. ``step``: where the playhead
    is; None if on the peak.
    """

    graph: Graph
    budget_bytes: int
    schedules: tuple[SolveResult, ...]
    bounds: Bounds
    constraints: Mapping[str, Any] | None = None
    measured: tuple[MeasuredSchedule, ...] = ()
    own: Mapping[int, SavedOwn] = field(default_factory=dict)
    constrained_bounds: tuple[BoundsUnder, ...] = ()
    under: Mapping[int, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)
    missed: Mapping[int, int] = field(default_factory=dict)
    step: int | None = None

    def of(self, graph: Graph) -> SavedExploration:
        """Return this exploration with ``graph``, which has the same ops, in place of its own. Where costs
        differ, bounds are left out: they hold for the costs that they were proved for.
        """
        costs, before = ([op.cost for op in each.ops] for each in (graph, self.graph))
        if costs == before:
            return replace(self, graph=graph)
        return replace(self, graph=graph, bounds=(), constrained_bounds=())


def is_exploration(data: Any) -> bool:
    return isinstance(data, dict) and data.get("format") == FORMAT


def write_exploration(path: Path, saved: SavedExploration, graph_body: bytes | None = None) -> None:
    """Write ``saved`` piece by piece, so that other threads can run. ``graph_body``: the graph as JSON, if
    known.
    """
    pieces = exploration_pieces(saved, graph_body)
    if path.name.endswith(".gz"):
        packer = zlib.compressobj(wbits=_GZIP)
        body = b"".join([*(packer.compress(piece) for piece in pieces), packer.flush()])
    else:
        body = b"".join(pieces)
    write_bytes(path, body)


def exploration_pieces(saved: SavedExploration, graph_body: bytes | None = None) -> Iterator[bytes]:
    yield b'{"format":%s,"version":%d,"graph":' % (_json(FORMAT), VERSION)
    yield graph_body or _json(graph_to_json(saved.graph))
    yield b',"budget_bytes":%d,"schedules":[' % saved.budget_bytes
    for index, result in enumerate(saved.schedules):
        more: dict[str, Any] = {}
        if index in saved.own:
            more["own"] = _own_to_json(saved.own[index])
        if saved.under.get(index):
            more["on_frontier_of"] = [dict(one) for one in saved.under[index]]
        if index in saved.missed:
            more["missed_budget_bytes"] = saved.missed[index]
        yield (b"," if index else b"") + _json({**result_to_json(saved.graph, result), **more})
    yield b'],"bounds":' + _json(_bounds_to_json(saved.bounds))
    if saved.constrained_bounds:
        under = [
            {"constraints": dict(one.constraints), "bounds": _bounds_to_json(one.bounds)}
            for one in saved.constrained_bounds
        ]
        yield b',"constrained_bounds":' + _json(under)
    if saved.constraints is not None:
        yield b',"constraints":' + _json(dict(saved.constraints))
    if saved.measured:
        yield b',"measured":' + _json([asdict(one) for one in saved.measured])
    if saved.step is not None:
        yield b',"step":%d' % saved.step
    yield b"}\n"


def _bounds_to_json(bounds: Bounds) -> list[dict[str, Any]]:
    return [
        {"budget_bytes": budget, "lower_bound": None if math.isinf(bound) else bound}
        for budget, bound in bounds
    ]


def _json(data: Any) -> bytes:
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


def read_exploration(path: Path) -> SavedExploration:
    return exploration_from_json(path, read_json(path))


def exploration_from_json(path: Path, data: Any) -> SavedExploration:
    """Raise FormatError where ``data`` is no valid exploration, or a bound is above a cost that it covers."""
    fields = Fields(path, data)
    require_version(fields, FORMAT, VERSION)
    graph = graph_from_json(path, fields.get("graph", dict))
    entries = fields.entries("schedules", [])
    schedules = tuple(_schedule(entry, graph) for entry in entries)
    bounds = _bounds(fields)
    _require_agreement(path, graph, schedules, bounds)
    proved = fields.entries("constrained_bounds", [])
    own = {place: _own(entry) for place, entry in enumerate(entries)}
    under = {place: entry.entries("on_frontier_of", []) for place, entry in enumerate(entries)}
    missed = {place: entry.whole("missed_budget_bytes", None) for place, entry in enumerate(entries)}
    return SavedExploration(
        graph,
        fields.whole("budget_bytes", 0),
        schedules,
        bounds,
        fields.get("constraints", dict, None),
        tuple(_measured(entry) for entry in fields.entries("measured", [])),
        {place: one for place, one in own.items() if one is not None},
        tuple(BoundsUnder(entry.get("constraints", dict), _bounds(entry)) for entry in proved),
        {place: tuple(one.data for one in sets) for place, sets in under.items() if sets},
        {place: budget for place, budget in missed.items() if budget is not None},
        fields.whole("step", None),
    )


def _require_agreement(path: Path, graph: Graph, schedules: tuple[SolveResult, ...], bounds: Bounds) -> None:
    """Raise where a bound is above the cost of a schedule that it covers, in O(n log n)."""
    by_budget = sorted(bounds, reverse=True)
    highest: list[tuple[int, float]] = []  # up to each of them
    for entry in by_budget:
        highest.append(entry if not highest or entry[1] > highest[-1][1] else highest[-1])
    for result in schedules:
        cost = float(graph.cost[result.require_schedule().steps].sum())  # the file's own figure may be wrong
        peak = result.peak_bytes  # a file may leave it out; it is then 0
        covered = bisect_right(by_budget, -(peak or 0), key=lambda entry: -entry[0])
        if peak and covered and cost < highest[covered - 1][1] * (1 - 1e-9):
            raise FormatError(
                f"{path}: the bound for {highest[covered - 1][0]} bytes contradicts a schedule of {peak} "
                "bytes",
                hint="remove the field bounds; they can be proved again",
            )


def _own_to_json(own: SavedOwn) -> dict[str, Any]:
    data: dict[str, Any] = {}
    if own.budget_bytes is not None:
        data["budget_bytes"] = own.budget_bytes
    if own.max_overhead is not None:
        data["max_overhead"] = own.max_overhead if math.isfinite(own.max_overhead) else None
    said = {"name": own.name, "note": own.note, "pinned": own.pinned, "constraints": own.constraints}
    return {**data, **{name: value for name, value in said.items() if value}}


def _own(entry: Fields) -> SavedOwn | None:
    if entry.get("own", dict, None) is None:
        return None
    fields = entry.inner("own")
    any_cost = fields.data.get("max_overhead", ...) is None
    return SavedOwn(
        fields.whole("budget_bytes", None),
        math.inf if any_cost else fields.number("max_overhead", None),
        fields.get("name", str, ""),
        fields.get("note", str, ""),
        fields.get("pinned", bool, False),
        fields.get("constraints", dict, None),
    )


def _schedule(fields: Fields, graph: Graph) -> SolveResult:
    try:
        return result_from_json(fields.path, fields.data, graph, fields.where)
    except FingerprintMismatchError as error:
        raise FormatError(
            f"{fields.path}: {fields.where}: {error}", hint="remove that schedule from the file"
        ) from error


def _measured(fields: Fields) -> MeasuredSchedule:
    steps, live = fields.ids("steps"), fields.ids("live_bytes")
    if len(steps) != len(live) or min(live, default=0) < 0:
        raise FormatError(
            f"{fields.path}: {fields.name('live_bytes')} has no size for each of the {len(steps)} steps",
            hint="remove the field measured; exporting measures again",
        )
    peak, seconds = fields.whole("peak_bytes"), fields.number("seconds")
    return MeasuredSchedule(steps, live, peak, seconds, fields.get("device", str, ""))


def _bounds(owner: Fields) -> Bounds:
    return tuple(
        (entry.whole("budget_bytes"), entry.bound("lower_bound")) for entry in owner.entries("bounds", [])
    )
