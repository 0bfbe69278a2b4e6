"""Say which chunks are set aside for the step's small buffers.

``checkmate.backends.tf.emit.small_chunks`` makes them, and says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import tensorflow as tf

from checkmate.backends.tf.trace.dataflow import Structure
from checkmate.backends.tf.trace.op_kinds import LIGHT_BYTES, OpKind
from checkmate.memory.bfc import Request

CHUNK = 256  # what the allocator rounds sizes up to
_ALWAYS = 8  # of each power of two: the sizes of some small tensors are not known before they are computed
_SHARE = 4  # one of so many small buffers may be held at once; 1 of 6 was the most that was measured
_FIRST_HANDLE = 1 << 61  # far from the handles of other requests


def small_chunk_sizes(structure: Structure) -> tuple[int, ...]:
    """Return the bytes of each chunk to set aside for the step, rising."""
    found: Counter[int] = Counter()
    for op, kind in zip(structure.ops, structure.kinds, strict=True):
        for tensor in op.outputs if kind is OpKind.LIGHT else ():
            if tensor.dtype not in (tf.resource, tf.variant) and tensor.shape.is_fully_defined():
                found[-(-tensor.shape.num_elements() * tensor.dtype.size // CHUNK) * CHUNK] += 1
    counts = {size: _ALWAYS + count // _SHARE for size, count in found.items() if 0 < size <= LIGHT_BYTES}
    size = CHUNK
    while size <= LIGHT_BYTES:
        counts.setdefault(size, _ALWAYS)
        size *= 2
    return tuple(size for size in sorted(counts) for _ in range(counts[size]))


def small_chunk_requests(structure: Structure) -> Iterator[Request]:
    """Yield the requests that set the chunks aside.

    Each chunk is requested with one that stays behind it; then the chunks are given back.
    """
    sizes = small_chunk_sizes(structure)
    for number, size in enumerate(sizes):
        yield Request(_FIRST_HANDLE + 2 * number, size)
        yield Request(_FIRST_HANDLE + 2 * number + 1, CHUNK)
    for number in range(len(sizes)):
        yield Request(_FIRST_HANDLE + 2 * number, 0)
