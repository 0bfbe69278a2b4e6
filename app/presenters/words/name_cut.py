"""Cut names in the middle so that what differs is seen; no Qt."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Sequence

_MOST = 300  # names that are compared with one; more would hold up the painting
_CUT, _LAST = "…", "\U0010ffff"


class NameCut:
    """Cuts the names of one list.

    The names of layers begin alike and end alike: ``conv2_block1_1_conv``, ``conv2_block1_2_conv``. Where a
    name is cut is chosen so that as few others as possible would look the same.
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._names = sorted(set(names))
        self._cuts: dict[tuple[str, int], str] = {}
        self._widths: dict[str, float] = {}

    def cut(self, name: str, width: Callable[[str], float], room: float) -> str:
        """Return the name, cut to ``room``; ``width`` measures a text."""
        if width(name) <= room:
            return name
        at = name, int(room)
        if at not in self._cuts:
            self._cuts[at] = self._best(name, width, room)
        return self._cuts[at]

    def _best(self, name: str, width: Callable[[str], float], room: float) -> str:
        """Return the cut that fewest names share, nearest the middle."""
        for letter in {*name, _CUT} - self._widths.keys():
            self._widths[letter] = width(letter)
        ends = list(itertools.accumulate((self._widths[letter] for letter in name), initial=0.0))
        best, fewest = _CUT, len(self._names) + 1
        for tail in sorted(range(1, len(name)), key=lambda tail: abs(2 * tail - len(name))):
            left = room - self._widths[_CUT] - (ends[-1] - ends[-1 - tail])
            head = min(bisect.bisect_right(ends, left) - 1, len(name) - tail - 1)
            if head < 0:
                continue
            rivals = self._alike(name[:head], name[-tail:])
            if rivals < fewest:
                best, fewest = name[:head] + _CUT + name[-tail:], rivals
            if rivals <= 1:
                break  # only the name itself
        while width(best) > room and not best.startswith(_CUT):  # letters together may be wider than alone
            best = best[: best.index(_CUT) - 1] + best[best.index(_CUT) :]
        return best

    def _alike(self, head: str, end: str) -> int:
        first, last = (bisect.bisect_left(self._names, text) for text in (head, head + _LAST))
        return sum(name.endswith(end) for name in self._names[first : min(last, first + _MOST)])
