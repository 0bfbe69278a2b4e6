"""Prepare TensorFlow's allocator for a step: chunks for its small buffers, and a region for all of it.

Small buffers (light ops) come and go when it suits the runtime. In the middle of a large free chunk one
splits it, so the same step would need more in one run than in another. An allocator that takes the best fit
first gives a small buffer a free chunk of just its size, if there is one. Here such chunks are made: buffers
of these sizes are requested in turn with others that stay, and given back. What stays keeps the free chunks
apart.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from checkmate.backends.tf.allocator.predict import CHUNK, small_chunk_sizes
from checkmate.backends.tf.memory_check import fitting_region
from checkmate.backends.tf.trace.dataflow import Structure
from checkmate.ir import Graph, Schedule


class SmallChunks(tf.saved_model.experimental.TrackableResource):  # type: ignore[misc]
    """The buffers between the chunks that are set aside for the small buffers of ``structure``.

    In a SavedModel it makes the chunks when that is loaded, and fetches a ``region`` of so many bytes in one
    piece before the variables are restored.
    """

    def __init__(self, structure: Structure | None, *, region: int = 0) -> None:
        super().__init__()
        self._region = region // 4
        sizes = () if structure is None else small_chunk_sizes(structure)
        self._words = tuple(word for size in sizes for word in (size // 4, CHUNK // 4))

    def make(self) -> None:
        """Make the chunks now; they are gone with this object."""
        assert self.resource_handle is not None  # made here: inside the function it would end with it
        tf.function(self._initialize, autograph=False).get_concrete_function()()

    def _create_resource(self) -> Any:
        fetched = []
        if self._region and not tf.executing_eagerly():
            with tf.device("CPU:0"):
                fetched = [tf.raw_ops.Empty(shape=[self._region], dtype=tf.float32, init=False).op]
        with tf.control_dependencies(fetched):
            return tf.raw_ops.VarHandleOp(dtype=tf.variant, shape=[], shared_name=_ANONYMOUS)

    def _initialize(self) -> None:
        words = tf.constant(self._words, tf.int32)

        def more(number: Any, *_: Any) -> Any:
            return number < len(self._words)

        def pair(number: Any, free: Any, kept: Any) -> tuple[Any, ...]:
            # The sizes are read in the loop: a constant would be made once for all.
            freed = tf.fill(words[number : number + 1], 0.0)
            with tf.control_dependencies([freed]):
                between = tf.fill(words[number + 1 : number + 2], 0.0)
            return number + 2, _pushed(free, freed), _pushed(kept, between)

        _, free, kept = tf.while_loop(
            more, pair, (tf.constant(0), _empty_list(), _empty_list()), parallel_iterations=1
        )
        with tf.control_dependencies([tf.raw_ops.TensorListLength(input_handle=free)]):
            tf.raw_ops.AssignVariableOp(resource=self.resource_handle, value=kept)

    def _destroy_resource(self) -> None:
        tf.raw_ops.DestroyResourceOp(resource=self.resource_handle, ignore_lookup_error=True)


_ANONYMOUS = "cd2c89b7-88b7-44c8-ad83-06c2a9158347"  # TensorFlow's name for "a new one each time"


def _empty_list() -> Any:
    return tf.raw_ops.EmptyTensorList(element_shape=-1, max_num_elements=-1, element_dtype=tf.float32)


def _pushed(held: Any, tensor: Any) -> Any:
    return tf.raw_ops.TensorListPushBack(input_handle=held, tensor=tensor)


_WORD = 4


# On a CPU the allocator fetches memory in regions as it is needed, each twice as large as the last. A free
# chunk is split only if it is at least twice as large as what is asked for. So a buffer of 32 MiB takes a
# whole region of 64 MiB from which a few bytes are missing, and how much is lost so depends on what ran
# before. In one region that has room for the whole step, what is free stays together, and little is lost. A
# VAE's step that requests 184 MiB held 218 MiB without it, and 190 MiB with it. The memory is asked for and
# given back at once, and not written to, so the system does not yet hand it out. A GPU's allocator takes all
# of the memory in one region by itself.
def fetch_region(graph: Graph, schedule: Schedule, *, most: int | None = None) -> None:
    """Let a CPU's allocator have a free region for a step; ``most``: more bytes are not needed.

    Nothing is done where the memory is not there. The allocator's highest mark may rise.
    """
    fetch_bytes(fitting_region(graph, schedule, most=most))


def fetch_bytes(size: int) -> None:
    if size < _WORD:
        return
    try:
        with tf.device("CPU:0"):
            tf.raw_ops.Empty(shape=[size // _WORD], dtype=tf.float32, init=False)
    except tf.errors.ResourceExhaustedError:
        return  # if the step needs that much, it will fail with an error of its own
