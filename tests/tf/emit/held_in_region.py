"""Tell what the allocator holds for large buffers, in a process of its own.

``python -m tests.tf.emit.held_in_region BYTES [region]`` asks for one buffer of ``BYTES`` beside a small one,
which stays, as a small step does. With ``region`` a region for four such buffers is fetched first. It prints
the bytes that were held for the large buffer, and those held before it, after the region.
"""

from __future__ import annotations

import dataclasses
import sys

import tensorflow as tf

from checkmate.backends.tf.devices import held_bytes
from checkmate.backends.tf.emit.set_aside import fetch_region
from checkmate.ir import Device, Schedule
from tests.generated_graphs import training_chain


def main(size: int, *, region: bool) -> None:
    small = tf.zeros([64])
    if region:
        graph = training_chain(4)
        values = tuple(dataclasses.replace(value, bytes=size) for value in graph.values)
        graph = dataclasses.replace(graph, values=values, device=Device("CPU", "cpu", 0))
        fetch_region(graph, Schedule.plain(graph))
    before = held_bytes("CPU:0")
    large = tf.raw_ops.Empty(shape=[size], dtype=tf.uint8)
    print(held_bytes("CPU:0") - before, before)
    del small, large


if __name__ == "__main__":
    main(int(sys.argv[1]), region=sys.argv[2:] == ["region"])
