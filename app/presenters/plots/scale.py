"""Scales and ticks; no Qt."""

from __future__ import annotations

import math
from dataclasses import dataclass

from checkmate.axis import byte_unit, round_values

_LOG_FROM = 4.0  # above this ratio of its ends a linear scale would crush the low budgets


def nice_ticks(low: float, high: float, most: int) -> list[float]:
    """Return at least one value from ``low`` to ``high``, round if possible. They are about ``most``."""
    return round_values(low, high, most) or [low]


@dataclass(frozen=True)
class BudgetScale:
    """Convert bytes to pixels and back.

    The scale goes from a little under the floor to a little over the top. The scale is logarithmic if the
    range is wide.
    """

    low: float
    high: float
    left: float
    right: float
    logarithmic: bool

    @classmethod
    def between(cls, floor: int, top: int, left: float, right: float) -> BudgetScale:
        """Return the scale for budgets from ``floor`` to ``top``, in bytes.

        The floor is what every schedule needs; the top is keeping everything.
        """
        high = max(2.0, 1.04 * top)
        wide = floor > 0 and top / floor > _LOG_FROM
        low = 0.82 * floor if wide else max(0.0, floor - 0.12 * (high - floor))
        return cls(max(low, 1.0 if wide else 0.0), high, left, max(right, left + 1), wide)

    def position(self, count: int) -> float:
        """Return where ``count`` bytes are, kept within the scale."""
        value = min(max(float(count), self.low), self.high)
        if self.logarithmic:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.left + share * (self.right - self.left)

    def bytes_at(self, x: float) -> int:
        """Return the bytes at ``x``, kept within the scale."""
        share = min(1.0, max(0.0, (x - self.left) / (self.right - self.left)))
        if self.logarithmic:
            return int(self.low * (self.high / self.low) ** share)
        return int(self.low + share * (self.high - self.low))

    @property
    def unit(self) -> tuple[str, int]:
        return byte_unit(self.high)

    def ticks(self) -> list[float]:
        """Return round figures in the scale's unit."""
        _, size = self.unit
        low, high = self.low / size, self.high / size
        if not self.logarithmic:
            return nice_ticks(low, high, 6)
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        every = [factor * 10.0**power for power in powers for factor in (1, 2, 3, 4, 6, 8)]
        return [tick for tick in every if low <= tick <= high]
