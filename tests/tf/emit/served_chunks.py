"""Tell which chunks serve small buffers, in a process of its own.

``python -m tests.tf.emit.served_chunks NAME`` sets the chunks of a small model aside, leaves a large
free chunk, requests small buffers, and prints one line of JSON:

- ``missing``: sizes of which too few chunks were set aside;
- ``small``: the small buffers that were requested;
- ``in_large``: those that split the large free chunk;
- ``in_made``: those that got a chunk set aside for them.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence

import tensorflow as tf

from checkmate.backends.tf.allocator.predict import CHUNK, small_chunk_sizes
from checkmate.backends.tf.emit.set_aside import SmallChunks
from checkmate.backends.tf.profiler import MemoryEvent, trace_run
from tests.tf.prepared import small as small_step

LARGE = 1 << 24


def rounded(size: int) -> int:
    return -(-size // CHUNK) * CHUNK


def given_back(events: Sequence[MemoryEvent]) -> dict[int, int]:
    """Return the chunks requested and given back: rounded bytes by address."""
    open_, freed = {}, {}
    for event in events:
        if event.requested_bytes > 0:
            open_[event.address] = rounded(event.requested_bytes)
        elif event.address in open_:
            freed[event.address] = open_.pop(event.address)
    return {address: size for address, size in freed.items() if address not in open_}


def main(name: str) -> None:
    folded = small_step(name)
    chunks = SmallChunks(folded.structure)
    made = given_back(trace_run(chunks.make, device="cpu").memory)
    wanted, there = Counter(small_chunk_sizes(folded.structure)), Counter(made.values())
    held: list[tf.Tensor] = []

    def hold() -> None:
        tf.zeros([LARGE], tf.uint8)  # leaves a large free chunk
        held.extend(tf.zeros([CHUNK * number], tf.uint8) for number in (1, 2, 4) for _ in range(8))

    events = trace_run(hold, device="cpu").memory
    (freed,) = {event.address for event in events if event.requested_bytes == LARGE}
    small = [event.address for event in events if event.requested_bytes in (CHUNK, 2 * CHUNK, 4 * CHUNK)]
    told = {
        "missing": [size for size, count in wanted.items() if there[size] < count],
        "small": len(small),
        "in_large": len([address for address in small if freed <= address < freed + LARGE]),
        "in_made": len([address for address in small if address in made]),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1])
