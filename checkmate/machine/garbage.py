"""Spare Python's garbage collector what stays anyway.

It looks at every object of the process again and again, and TensorFlow makes some 300,000 of them when it is
imported. A full collection takes 0.4 s then.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

IMMORTAL = 5000  # objects, at most: from Python 3.12 on, a collection hides those that live for ever


@contextmanager
def only_newer_garbage() -> Iterator[None]:
    """Collect garbage now, and inside this block look at newer objects only.

    Where the program has hidden objects from the collector itself (``gc.freeze``), that is left as it is.
    """
    gc.collect()
    own = gc.get_freeze_count() < IMMORTAL
    if own:
        gc.freeze()
    try:
        yield
    finally:
        if own:
            gc.unfreeze()


def hide_all() -> None:
    """Hide all objects that there are from the collector, for good.

    It is for processes of our own. At their end too Python would look at every object: a second of a
    processor's time, to free what the operating system takes back anyway.
    """
    gc.freeze()
