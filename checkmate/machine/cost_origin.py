"""Say in words where a graph's costs and its model are from."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

from checkmate.ir import CostOrigin, CostUnit, Graph
from checkmate.machine.load import Reading
from checkmate.machine.processor import processor_name
from checkmate.units import format_seconds

_MATTERS = 0.02  # of the step's cost; a smaller doubtful share is not mentioned
_OTHER_PACE = 1.25  # ratio of the seconds of two days that is worth a sentence
READ_AGAIN = "profile again when the machine is quiet: these ops are then measured again"

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def cost_text(graph: Graph, cost: float, digits: int = 3) -> str:
    """Return ``1.31 s``, ``381 GFLOP`` or ``12,000 units``."""
    if graph.cost_unit is CostUnit.SECONDS:
        return format_seconds(cost, digits)
    if graph.cost_unit is CostUnit.FLOP:
        rounded = float(f"{cost:.{digits}g}")
        factor, prefix = next(((f, p) for f, p in _PREFIXES if rounded >= f), (1.0, ""))
        return f"{cost / factor:.{digits}g} {prefix}FLOP"
    return f"{cost:,.0f} units" if cost >= 1000 else f"{cost:.4g} units"


def origin_words(graph: Graph) -> str:
    """Return ``measured``, ``analytic`` or ``given``, and how many measured costs came from the cache."""
    if graph.cost_origin is not CostOrigin.MEASURED:
        return graph.cost_origin.value
    cache = cache_facts(graph)
    known, now = cache.get("ops"), cache.get("measured_now")
    if not isinstance(known, int) or not isinstance(now, int) or not known:
        return "measured"
    oldest, newest = str(cache.get("oldest", "")), str(cache.get("newest", ""))
    days = newest if oldest == newest else f"{oldest} to {newest}"
    if not now:
        return f"measured before (cache, {days})"
    return f"measured, {known} of {known + now} ops before (cache, {days})"


def cache_facts(graph: Graph) -> Mapping[str, Any]:
    """Return ``ops``, ``measured_now``, ``oldest``, ``newest`` and ``problem`` of the cache; may be empty."""
    cache = graph.origin.profile.get("cache")
    return cache if isinstance(cache, Mapping) else {}


def reading_facts(graph: Graph) -> Mapping[str, Any]:
    """Return the measurement's load, cores, spread and doubtful ops; empty where a file holds something else
    there.
    """
    facts = graph.origin.profile.get("reading")
    if graph.cost_origin is not CostOrigin.MEASURED or not isinstance(facts, Mapping):
        return {}
    wanted = ("load", "cores", "spread", "doubtful_ops", "doubtful_share")
    if not all(_is_number(facts.get(name)) for name in wanted):
        return {}
    return facts if facts["cores"] >= 1 and facts["doubtful_share"] <= 1 + 1e-6 else {}


def reading_words(graph: Graph) -> str:
    why = doubt_words(graph)
    return f"{why}; {READ_AGAIN}" if why else ""


def doubt_words(graph: Graph) -> str:
    """Return why the costs are doubtful; empty where they are not, or hardly."""
    facts = reading_facts(graph)
    if not facts or facts["doubtful_share"] < _MATTERS:
        return ""
    reading = Reading(float(facts["load"]), int(facts["cores"]), float(facts["spread"]))
    share = facts["doubtful_share"]
    what = "costs were" if share > 1 - _MATTERS else f"{100 * share:.0f} % of the step's cost was"
    if not reading.is_busy:
        return f"{what} measured in runs that differ much (spread {100 * reading.spread:.0f} %)"
    return f"{what} measured on a busy machine ({taken_words(reading)}, spread {100 * reading.spread:.0f} %)"


def taken_words(reading: Reading) -> str:
    return f"other programs took {reading.load:.1f} of {reading.cores} core{'s' * (reading.cores != 1)}"


def pace_words(graph: Graph) -> str:
    pace = graph.origin.profile.get("plain_per_predicted")
    if not _is_number(pace) or not is_other_pace(pace):
        return ""
    today, slower = format_seconds(pace * graph.base_cost), "slower" if pace > 1 else "quicker"
    return (
        f"the plain step took {today} while it was profiled: the machine is {slower} now than when "
        "the costs were measured"
    )


def is_other_pace(ratio: float) -> bool:
    return ratio > 0 and not 1 / _OTHER_PACE <= ratio <= _OTHER_PACE


def _is_number(value: object) -> TypeGuard[float]:
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and math.isfinite(value)
        and value >= 0
    )


def elsewhere_words(graph: Graph) -> str:
    device = graph.device
    if device is None or device.kind != "cpu" or not device.name or device.name == processor_name():
        return ""
    return f"profiled on another machine ({device.name}); this one has {processor_name()}"


def file_facts(model: str) -> dict[str, Any] | None:
    """Return ``path``, ``modified_ns`` and ``sha256`` of a model's file or code; None: it has none."""
    code, colon, _ = model.rpartition(":")
    path = Path(code if colon and code.endswith(".py") else model)
    if not path.is_file():
        return None
    return {"path": str(path.resolve()), "modified_ns": path.stat().st_mtime_ns, "sha256": _digest(path)}


def changed_since_profiled(graph: Graph) -> Path | None:
    """Return the model's file if it is known to differ from the profiled one."""
    facts = graph.origin.model_file
    if not isinstance(facts.get("path"), str):
        return None
    path = Path(facts["path"])
    try:
        if not path.is_file() or path.stat().st_mtime_ns == facts.get("modified_ns"):
            return None
        return None if _digest(path) == facts.get("sha256") else path
    except OSError:
        return None


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
