"""Choose round values and a unit for an axis."""

from __future__ import annotations

import math

_UNITS = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1))


def byte_unit(peak: float) -> tuple[str, int]:
    """Return the unit in which ``peak`` (bytes) reads best, and its size."""
    return next(((name, size) for name, size in _UNITS if peak >= 2 * size), _UNITS[-1])


def round_values(low: float, high: float, most: int) -> list[float]:
    """Return round values from ``low`` to ``high``, about ``most`` of them.

    There may be none where the two are close.
    """
    raw = max(high - low, 1e-9) / max(1, most)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)
    numbers = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    return [round(number * step, 12) for number in numbers]
