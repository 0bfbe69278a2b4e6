"""What a picture or a page of a trade-off curve needs, without graph and schedules."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkmate.formats.files import Fields
from checkmate.frontiers.summary import TradeOff
from checkmate.frontiers.table import facts, known_words
from checkmate.ir import SolveStatus


@dataclass(frozen=True)
class CurvePoint:
    peak_bytes: int
    cost: float
    solver: str


@dataclass(frozen=True)
class CurveRow:
    """``lower_bound``: for any order, infinite where no schedule exists. ``known``: what is, in words."""

    budget_bytes: int
    status: SolveStatus
    point: CurvePoint | None
    lower_bound: float
    known: str
    seconds: float = 0.0


@dataclass(frozen=True)
class CurveBaseline:
    """A known strategy's schedules, by falling peak. ``note``: why there are none, or fewer."""

    solver: str
    points: tuple[CurvePoint, ...]
    note: str = ""


@dataclass(frozen=True)
class Curve:
    """A trade-off: rows by rising budget, ``best`` by rising peak.

    ``bounds``: (up to this budget, lower bound). ``infeasible_below``: bytes up to which it is proved that
    nothing fits. ``cost_origin``: measured, analytic or given.
    """

    name: str
    ops: int
    fixed_bytes: int
    cost_origin: str
    base_cost: float
    plain_peak_bytes: int
    infeasible_below: int
    solver: str
    best: tuple[CurvePoint, ...]
    bounds: tuple[tuple[int, float], ...]
    seconds: float = 0.0
    time_limit_s: float = 0.0
    cancelled: bool = False
    rows: tuple[CurveRow, ...] = ()
    baselines: tuple[CurveBaseline, ...] = ()
    notes: tuple[str, ...] = ()

    def percent(self, cost: float) -> float:
        """The extra cost over computing everything once, in percent."""
        return 100 * (cost / self.base_cost - 1) if self.base_cost > 0 else 0.0

    def best_within(self, budget: int) -> CurvePoint | None:
        return min(
            (point for point in self.best if point.peak_bytes <= budget), key=lambda p: p.cost, default=None
        )


def curve_of(found: TradeOff) -> Curve:
    return read_curve(Path(found.graph.name), facts(found))


def read_curve(path: Path, data: Any, where: str = "") -> Curve:
    """Return the curve in ``data``, which is as ``checkmate.frontiers.table.facts`` makes it.

    ``path``, and ``where`` it is there, are for messages. Where the file has no ``bounds``, each budget's own
    bound is used. A FormatError names a field that is missing or of another kind.
    """
    fields = Fields(path, data, where)
    graph = fields.inner("graph")
    rows = tuple(
        sorted((_row(entry) for entry in fields.entries("budgets")), key=lambda row: row.budget_bytes)
    )
    best = [_read_point(entry) for entry in fields.entries("schedules")]
    bounds = [(e.whole("budget_bytes"), e.bound("lower_bound")) for e in fields.entries("bounds", [])]
    if "bounds" not in fields.data:
        bounds = [(row.budget_bytes, row.lower_bound) for row in rows]
    return Curve(
        name=graph.get("name", str),
        ops=graph.whole("ops"),
        fixed_bytes=graph.whole("fixed_bytes", 0),
        cost_origin=fields.get("cost_origin", str),
        base_cost=fields.number("base_cost"),
        plain_peak_bytes=fields.whole("keep_everything_peak_bytes"),
        infeasible_below=fields.whole("infeasible_up_to_bytes"),
        solver=fields.get("solver", str),
        seconds=fields.number("seconds"),
        time_limit_s=fields.number("time_limit_s"),
        cancelled=fields.get("cancelled", bool, False),
        rows=rows,
        best=tuple(sorted(best, key=lambda point: (point.peak_bytes, point.cost))),
        bounds=tuple(sorted(bounds)),
        baselines=tuple(_baseline(entry) for entry in fields.entries("baselines", [])),
        notes=tuple(str(note) for note in fields.get("notes", list, [])),
    )


def _read_point(fields: Fields) -> CurvePoint:
    return CurvePoint(fields.whole("peak_bytes"), fields.number("cost"), fields.get("solver", str))


def _baseline(fields: Fields) -> CurveBaseline:
    points = sorted(
        map(_read_point, fields.entries("points")), key=lambda point: (-point.peak_bytes, point.cost)
    )
    return CurveBaseline(fields.get("solver", str), tuple(points), fields.get("note", str, ""))


def _row(fields: Fields) -> CurveRow:
    status = fields.choice("status", SolveStatus)
    point = _read_point(fields) if status.has_schedule else None
    bound = fields.bound("lower_bound")
    assumed = "status_under_assumptions"
    under = fields.choice(assumed, SolveStatus) if fields.data.get(assumed) else None
    words = known_words(
        status,
        None if point is None else point.cost,
        bound,
        tuple(map(str, fields.get("assumptions", list, []))),
        under,
    )
    return CurveRow(fields.whole("budget_bytes"), status, point, bound, words, fields.number("seconds", 0.0))
