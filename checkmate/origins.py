"""In words, how a graph's costs are known: measured now, measured before, estimated or given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkmate.ir.graph import CostOrigin, Graph


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
