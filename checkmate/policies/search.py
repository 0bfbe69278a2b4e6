"""Choose segments: within a budget at the least cost, else with the least peak.

Costs of segments add up, and nearly so do the bytes that they free. So the best disjoint segments at a price
per byte are found exactly, by dynamic programming; prices, and limits for what one segment may compute again
at once, are tried, and each choice is replayed. The best are then improved by changing one segment at a time.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np

from checkmate.policies.segment import Segment
from checkmate.policies.segments import Segments
from checkmate.progress import Cancelled, never

_PRICES, _LIMITS = 24, 10
_STARTS = 12  # of the choices at prices, how many are improved
_NEAR = 2  # units by which a neighbour's ends differ at most

Chosen = tuple[Segment, ...]
Key = tuple[bool, float, float]


def choose(
    segments: Segments, budget_bytes: int, *, limit_s: float = 20.0, cancelled: Cancelled = never
) -> Chosen:
    """Return the segments of the cheapest policy found within the budget; with the least peak if none is."""
    search = _Search(segments, budget_bytes, time.perf_counter() + limit_s, cancelled)
    if not search.key(())[0]:
        return ()
    tried = {chosen: search.key(chosen) for chosen in _at_prices(segments.found) if not search.over()}
    ends = [search.improved(start) for start in sorted(tried, key=lambda each: tried[each])[:_STARTS]]
    return min([(), *tried, *ends], key=search.key)


@dataclass
class _Search:
    segments: Segments
    budget: int
    until: float
    cancelled: Cancelled
    _known: dict[Chosen, Key] = field(default_factory=dict)

    def over(self) -> bool:
        return time.perf_counter() > self.until or self.cancelled()

    def key(self, chosen: Chosen) -> Key:
        """Return what is least for the best choice."""
        if chosen not in self._known:
            peak = self.segments.peak_bytes(chosen)
            cost = sum(segment.cost for segment in chosen)
            over = peak > self.budget
            self._known[chosen] = (over, peak, cost) if over else (over, cost, peak)
        return self._known[chosen]

    def improved(self, chosen: Chosen) -> Chosen:
        """Change one segment or two beside each other, for as long as it helps and there is time."""
        while (better := self._better(chosen)) is not None:
            chosen = better
        return chosen

    def _better(self, chosen: Chosen) -> Chosen | None:
        for near in self._neighbours(chosen):
            if self.over():
                return None
            if self.key(near) < self.key(chosen):
                return near
        return None

    def _neighbours(self, chosen: Chosen) -> Iterator[Chosen]:
        for segment in chosen:
            yield tuple(other for other in chosen if other is not segment)
        for new in self.segments.found:
            if new in chosen or not (_is_near(new, chosen) or new.end - new.first <= _NEAR):
                continue
            gone = [other for other in chosen if other.overlaps(new)]
            kept = [other for other in chosen if not other.overlaps(new)]
            yield _ordered([*kept, new])
            for old in gone:
                for rest in self._beside(new, old):
                    if not any(rest.overlaps(other) for other in kept):
                        yield _ordered([*kept, new, rest])

    def _beside(self, new: Segment, old: Segment) -> Iterator[Segment]:
        """Yield what fills up ``old`` before or behind ``new``."""
        for span in ((old.first, new.first), (new.end, old.end)):
            yield from self.segments.spans.get(span, ())


def _is_near(new: Segment, chosen: Chosen) -> bool:
    for old in chosen:
        apart = abs(new.first - old.first), abs(new.end - old.end)
        if max(apart) <= _NEAR or (min(apart) == 0 and new.overlaps(old)):
            return True
    return False


def _ordered(chosen: Collection[Segment]) -> Chosen:
    return tuple(sorted(chosen, key=lambda segment: segment.first))


def _at_prices(found: Collection[Segment]) -> Iterator[Chosen]:
    if not found:
        return
    ratios = np.array([segment.cost / segment.freed for segment in found])
    sizes = np.array([segment.freed for segment in found])
    prices = np.unique(np.quantile(ratios, np.linspace(0, 1, _PRICES))) * 1.001
    for limit in np.geomspace(sizes.min(), sizes.max(), _LIMITS)[::-1]:
        allowed = [segment for segment in found if segment.freed <= limit]
        for price in (*prices, 1e3 * prices[-1] + 1.0):
            yield _best_disjoint(allowed, float(price))


def _best_disjoint(found: Collection[Segment], price: float) -> Chosen:
    """Return the disjoint segments with the most worth: the price of the freed bytes, less the cost.
    ``found`` is by rising end."""
    worth = [0.0]
    ending: dict[int, list[Segment]] = {}
    for segment in found:
        ending.setdefault(segment.end, []).append(segment)
    taken: list[Segment | None] = [None]
    for end in range(1, max(ending, default=0) + 1):
        best, which = worth[end - 1], None
        for segment in ending.get(end, ()):
            value = worth[segment.first] + price * segment.freed - segment.cost
            if value > best:
                best, which = value, segment
        worth.append(best)
        taken.append(which)
    chosen, end = list[Segment](), len(taken) - 1
    while end > 0:
        which = taken[end]
        chosen += [] if which is None else [which]
        end = end - 1 if which is None else which.first
    return tuple(reversed(chosen))
