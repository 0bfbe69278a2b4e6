"""A graph's costs in words: how much, and how they are known (measured now, measured before, estimated or given)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkmate.ir.graph import CostOrigin, CostUnit, Graph
from checkmate.units import format_seconds

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def cost_text(graph: Graph, cost: float) -> str:
    """``cost`` in the graph's unit: ``1.31 s``, ``381 GFLOP``, ``12,000 units``."""
    if graph.cost_unit is CostUnit.SECONDS:
        return format_seconds(cost)
    if graph.cost_unit is CostUnit.FLOP:
        factor, prefix = next(((f, p) for f, p in _PREFIXES if cost >= f), (1.0, ""))
        return f"{cost / factor:.3g} {prefix}FLOP"
    return f"{cost:,.0f} units" if cost >= 1000 else f"{cost:.4g} units"


def origin_words(graph: Graph) -> str:
    """``measured``, ``analytic`` or ``given``; of measured costs also how many are from the cache, and of which day.

    A graph's metadata come from files too: what is not as ``profile`` writes it is passed over.
    """
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
    """What the profile said of the cache (``ops``, ``measured_now``, ``oldest``, ``newest``, ``problem``); may be empty."""
    profile = graph.metadata.get("profile")
    cache = profile.get("cache") if isinstance(profile, Mapping) else None
    return cache if isinstance(cache, Mapping) else {}
