"""Who works on the second core: the prover, or another search while the prover gets nowhere.

Where the bound is far from the cost and stands still, a prover's turn of seconds helps nobody, and a search from another seed
does: on graphs of hundreds of ops the seed decides how good a schedule is found in ten seconds. The two take turns that grow
longer, so that neither loses more than about half of the time in the long run.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable

from checkmate.solvers.local_search import Search
from checkmate.solvers.sequence_splice import Found

_FIRST_PROOF_S, _FIRST_SEARCH_S = 2.0, 8.0  # turns; each next one of a kind is twice as long
_FAR = 0.01  # of the cost: a gap that a prover whose bound stands still is not left to close alone


class SecondSearch:
    """A search in a thread of its own, in turns; it goes on where it was. Kernels run without Python's global lock."""

    def __init__(self, begin: Callable[[], Search]) -> None:
        self._begin = begin
        self._search: Search | None = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._news: deque[Found] = deque(maxlen=1)
        self._failure: Exception | None = None

    @property
    def moves(self) -> int:
        """Moves made in all turns."""
        return 0 if self._search is None else self._search.moves

    def start(self, known: Found | None) -> None:
        """Search until ``stop``, from ``known`` where a search has begun before and knows nothing as good."""
        self.stop()
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(known, self._stopping), daemon=True, name="second search"
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop within milliseconds."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stopping.set()
            thread.join()

    def take(self) -> Found | None:
        """The best found since the last call, if anything is.

        Raises:
            Exception: what the search failed with.
        """
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return self._news.pop() if self._news else None

    def has_news(self) -> bool:
        """Whether ``take`` would return or raise anything."""
        return bool(self._news) or self._failure is not None

    def _run(self, known: Found | None, stopping: threading.Event) -> None:
        try:
            if self._search is None:
                self._search = self._begin()
            elif known is not None:
                self._search.offer(known.steps)
            search = self._search

            def improved(steps: list[int], cost: float) -> None:
                if search.best is not None:
                    self._news.append(Found(cost, search.best))

            search.run(until=math.inf, cancelled=stopping.is_set, incumbent=improved, enough=lambda cost: False)
        except Exception as failure:  # raised where the thread's work is taken
            self._failure = failure


class SecondCore:
    """Whose turn it is on the second core. The prover begins; ``ask`` sets it to work again, ``stop`` ends its turn."""

    def __init__(self, second: SecondSearch, *, ask: Callable[[], None], stop: Callable[[], None]) -> None:
        self._second, self._ask, self._stop = second, ask, stop
        self._proof_s, self._search_s = _FIRST_PROOF_S, _FIRST_SEARCH_S
        self._bound, self._moved_at = -math.inf, time.perf_counter()
        self._searching = False
        self.due = time.perf_counter() + self._proof_s  # when the turn may be over

    def note_bound(self, bound: float) -> None:
        """The prover got on, if this is higher than before."""
        if bound > self._bound:
            self._bound, self._moved_at = bound, time.perf_counter()

    def change(self, known: Found | None) -> Found | None:
        """Let the other one work if the turn is over; ``known``: the best so far.

        The best that is known where the second search's turn is over, for the first search to go on from.
        """
        now = time.perf_counter()
        if now < self.due:
            return None
        if self._searching:
            self._second.stop()
            self._searching = False
            self._proof_s = max(self._proof_s, self._search_s)
            self._search_s *= 2
            self.due = now + self._proof_s
            self._ask()
            return known
        near = known is not None and known.cost - self._bound <= _FAR * known.cost
        if near or now - self._moved_at < 0.5 * self._proof_s:
            self.due = now + 0.25 * self._proof_s
            return None
        self._stop()
        self._searching = True
        self.due = now + self._search_s
        self._second.start(known)
        return None
