"""Give solves less time, the more before them found nothing in theirs.

Near the least memory of a graph a solve may neither find a schedule nor prove that there is none, and takes
all of its time. A small network's budget, which nothing kept, took ten such solves of 20 s each.
"""

from __future__ import annotations

from dataclasses import dataclass

from checkmate.ir.result import SolveResult, SolveStatus

_LEAST = 1 / 16  # of the time limit


@dataclass
class Patience:
    """Hold what share of its time limit the next solve gets.

    A proof that there is no schedule took no more time than it needed, so it changes nothing.
    """

    share: float = 1.0

    def note(self, found: SolveResult) -> None:
        """Halve the share where ``found`` has no schedule, and no proof."""
        if found.status is SolveStatus.LIMIT:
            self.share = max(_LEAST, self.share / 2)
