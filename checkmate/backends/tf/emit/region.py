"""Fetch the memory of a step in one piece.

On a CPU the allocator fetches memory in regions as it is needed, each twice as large as the last. A free
chunk is split only if it is at least twice as large as what is asked for. So a buffer of 32 MiB takes a whole
region of 64 MiB from which a few bytes are missing, and how much is lost so depends on what ran before. In
one region that has room for the whole step, what is free stays together, and little is lost. A VAE's step
that requests 184 MiB held 218 MiB without it, and 190 MiB with it.

The memory is asked for and given back at once, and not written to, so the system does not yet hand it out. A
GPU's allocator takes all of the memory in one region by itself.
"""

from __future__ import annotations

import tensorflow as tf

from checkmate.backends.tf.memory_check import fitting_region
from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule

_WORD = 4


def fetch_region(graph: Graph, schedule: Schedule, *, most: int | None = None) -> None:
    """Let the CPU's allocator have a free region for a step by ``schedule``.

    ``most``: more bytes are not needed. Nothing is done where the memory is not there, or on a GPU. The
    allocator's highest mark may rise.
    """
    fetch_bytes(fitting_region(graph, schedule, most=most))


def fetch_bytes(size: int) -> None:
    """Let the CPU's allocator have a free region of ``size`` bytes; 0: none."""
    if size < _WORD:
        return
    try:
        with tf.device("CPU:0"):
            tf.raw_ops.Empty(shape=[size // _WORD], dtype=tf.float32, init=False)
    except tf.errors.ResourceExhaustedError:
        return  # the step itself will say so, if it needs that much
