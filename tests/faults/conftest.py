"""Wait in tests for what happens in other threads."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

_STALL_S = 30.0  # only what never happens takes so long


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], bool]:
    """Return a function that waits for a condition; False: it never came."""

    def wait(condition: Callable[[], bool]) -> bool:
        end = time.monotonic() + _STALL_S
        while not condition():
            if time.monotonic() > end:
                return False
            time.sleep(0.005)
        return True

    return wait
