"""Sizes and durations as people write them, and round values on an axis."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

_UNITS = {
    "": 1, "b": 1,
    "k": 2**10, "kib": 2**10, "kb": 10**3,
    "m": 2**20, "mib": 2**20, "mb": 10**6,
    "g": 2**30, "gib": 2**30, "gb": 10**9,
    "t": 2**40, "tib": 2**40, "tb": 10**12,
}  # fmt: skip
_SIZE = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z]*)\s*")
_FRACTION = re.compile(r"\s*([0-9]*\.[0-9]+)\s*")  # without a unit
_PERCENT = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*%\s*")
_NEGATIVE = re.compile(r"\s*-\s*[0-9.]")
_ROOM = 1.02  # a budget of this many times a step's peak is called enough
NONE = "–"  # in place of a figure that is not known
_AS_BUDGETS = "write it like 6.5GiB, 16GB, 60% (of the plain peak) or min"
FIRST_SHARE = 0.6  # the first budget that the window solves for, as a share of keeping everything


def plural(number: int, word: str, several: str = "") -> str:
    """Return a count such as ``1 row`` or ``2 rows``; ``several`` where it is not ``word`` with an s."""
    return f"{number:,} {word if number == 1 else several or f'{word}s'}"


def parse_bytes(text: str) -> int:
    """Return the bytes that ``text`` means, rounded down to a whole byte.

    Raises:
        ValueError: with a sentence that says what was found and what is understood.
    """
    match = _SIZE.fullmatch(text)
    if match is None or match.group(2).lower() not in _UNITS:
        raise ValueError(f"cannot read {text!r} as a size; write it like 6.5GiB, 16GB, 800M or 6979321856")
    size = float(match.group(1)) * _UNITS[match.group(2).lower()]
    if not math.isfinite(size) or size >= 2**62:
        raise ValueError(f"size {text!r} is larger than any memory")
    # A plain integer must survive exactly: float64 would lose digits above 2^53.
    return int(match.group(1)) * _UNITS[match.group(2).lower()] if match.group(1).isdigit() else int(size)


@dataclass(frozen=True)
class Budget:
    """A memory budget as the user gave it: bytes, a share of the keep-everything peak, or neither: the
    minimum.
    """

    bytes_: int | None = None
    share: float | None = None

    def resolve(self, *, keep_everything_peak: int, minimum: int) -> int:
        """Return the budget in bytes for a graph with these two ends, in bytes."""
        if self.bytes_ is not None:
            return self.bytes_
        if self.share is not None:
            # 0.7 * 90 is 62.99999999999999; the user means 63.
            return math.floor(round(self.share * keep_everything_peak, 3))
        return minimum


def parse_budget(text: str) -> Budget:
    """Read a budget: ``6.5GiB``, ``60%`` or ``min``.

    Raises:
        ValueError: with a sentence that says what was found and what is understood.
    """
    if text.strip().lower() == "min":
        return Budget()
    percent = _PERCENT.fullmatch(text)
    found = Budget(_budget_bytes(text)) if percent is None else Budget(share=float(percent.group(1)) / 100)
    if found.bytes_ == 0 or found.share == 0:
        raise ValueError(f"a budget of {text} leaves no memory at all; {_AS_BUDGETS}")
    if found.share is not None and found.share > 1:
        raise ValueError(f"a budget of {text} is more than keeping everything takes; write 100% or less")
    return found


def _budget_bytes(text: str) -> int:
    bare = _FRACTION.fullmatch(text)
    if bare is not None:
        number = bare.group(1)
        share = f"{float(number):.0%} for a share of the plain peak, or " if float(number) <= 1 else ""
        raise ValueError(f"{number} is neither a size nor a share; write {share}{number}GiB")
    if _NEGATIVE.match(text):
        raise ValueError(f"a budget of {text} is not positive; {_AS_BUDGETS}")
    try:
        return parse_bytes(text)
    except ValueError:
        raise ValueError(f"cannot read {text!r} as a budget; {_AS_BUDGETS}") from None


def parse_overhead(text: str) -> float:
    """Read an extra cost as a fraction: ``5%`` or ``0.05``; ``any`` is infinity.

    Raises:
        ValueError: with a sentence that says what was found and what is understood.
    """
    if text.strip().lower() in ("any", "inf"):
        return math.inf
    number, percent, _ = text.strip().partition("%")
    try:
        value = float(number) / (100 if percent else 1)
    except ValueError:
        value = math.nan
    if value < 0:
        raise ValueError(f"{text!r} is impossible: no schedule costs less than computing everything once")
    if not percent and 1 <= value < math.inf:
        raise ValueError(f"{text!r} could mean {value:g} % or {100 * value:g} %; write the % sign")
    if not math.isfinite(value):
        raise ValueError(f"cannot read {text!r} as an extra cost; write it like 5%, 0.05 or any")
    return value


def format_bytes(count: float | None, none: str = NONE) -> str:
    """Write three significant digits in binary units: ``6.50 GiB``, ``948 MiB``, ``17 B``."""
    if count is None:
        return none
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1000 or unit == "TiB":
            break
        size /= 1024
    if unit == "B":
        return f"{size:.0f} B"
    digits = 2 if abs(size) < 10 else 1 if abs(size) < 100 else 0
    return f"{size:.{digits}f} {unit}"


def format_bytes_up(count: int) -> str:
    """Write like ``format_bytes``, but never less than ``count`` when it is read back."""
    text = format_bytes(count)
    if parse_bytes(text) >= count:
        return text
    number, unit = text.split()
    digits = len(number.partition(".")[2])
    return f"{float(number) + 10**-digits:.{digits}f} {unit}"


def format_bytes_enough(shown: int) -> str:
    """Write a budget that is said to be enough for a step that showed, or should show, ``shown`` bytes."""
    return format_bytes_up(int(shown * _ROOM))


def format_bytes_apart(one: int, other: int) -> tuple[str, str]:
    """Write both like ``format_bytes``, or to the byte where three digits do not tell them apart."""
    texts = format_bytes(one), format_bytes(other)
    return (f"{one:,} B", f"{other:,} B") if texts[0] == texts[1] and one != other else texts


def format_seconds(seconds: float | None, digits: int = 3, none: str = NONE) -> str:
    """Write a time: ``1.31 s``, ``2.4 ms``, ``85 µs``, ``3 min 20 s``; no minutes with more than three
    digits.
    """
    if seconds is None:
        return none
    if seconds >= 120 and digits <= 3:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        text = f"{seconds * factor:.{digits}g}"
        if float(text) >= 1 or unit == "µs":  # as written: 0.9999 s is 1 s, not 1e+03 ms
            return f"{text} {unit}"
    raise AssertionError("unreachable")


def format_overhead(cost: float, base_cost: float) -> str:
    """Write the extra cost over computing everything once: ``+7.70 %``, ``+0.00 %`` for next to nothing."""
    if base_cost <= 0:
        return "+0 %"
    extra = round(100 * (cost / base_cost - 1), 2)
    return f"{extra + 0.0:+.2f} %"  # minus zero plus zero is zero


_AXIS_UNITS = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1))


def byte_unit(peak: float) -> tuple[str, int]:
    """Return the unit in which ``peak`` (bytes) reads best, and its size."""
    return next(((name, size) for name, size in _AXIS_UNITS if peak >= 2 * size), _AXIS_UNITS[-1])


def round_values(low: float, high: float, most: int) -> list[float]:
    """Return about ``most`` round values from ``low`` to ``high``; perhaps none where they are close."""
    raw = max(high - low, 1e-9) / max(1, most)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)
    numbers = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    return [round(number * step, 12) for number in numbers]
