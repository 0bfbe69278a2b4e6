"""A second search beside the first, from another seed.

It needs a third core. On graphs of hundreds of ops, the seed decides how good a schedule is found in ten
seconds. With two cores, the second one is the prover's: a search in its place would stop the bound from
rising.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable

from checkmate.progress import Cancelled
from checkmate.solvers.sequence.local_search import SequenceSearch
from checkmate.solvers.sequence.replay import CostedSteps


class SecondSearch:
    """A search in a thread of its own.

    Its kernels run without Python's global lock, so it does not slow the first search.
    """

    def __init__(self, begin: Callable[[Cancelled], SequenceSearch]) -> None:
        self._begin = begin
        self._search: SequenceSearch | None = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._news: deque[CostedSteps] = deque(maxlen=1)
        self._failure: Exception | None = None

    @property
    def moves(self) -> int:
        return 0 if self._search is None else self._search.moves

    def start(self) -> None:
        """Search until ``stop``; started again, it goes on where it was."""
        self.stop()
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(self._stopping,), daemon=True, name="second search"
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop within milliseconds."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stopping.set()
            thread.join()

    def take(self) -> CostedSteps | None:
        """Return the best found since the last call, if anything is.

        Raises:
            Exception: what the search failed with.
        """
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return self._news.pop() if self._news else None

    def has_news(self) -> bool:
        """Return whether ``take`` would return or raise anything."""
        return bool(self._news) or self._failure is not None

    def _run(self, stopping: threading.Event) -> None:
        """Search, and note what is found or what failed."""
        try:
            search = self._search = self._search or self._begin(stopping.is_set)

            def improved(steps: list[int], cost: float) -> None:
                if search.best is not None:
                    self._news.append(CostedSteps(cost, search.best))

            search.run(
                until=math.inf, cancelled=stopping.is_set, incumbent=improved, enough=lambda cost: False
            )
        except Exception as failure:  # ``take`` raises it
            self._failure = failure
