"""Read what memory XLA gave to a compiled step, without running it.

XLA assigns every buffer while it compiles. Its ``HloProto`` holds the assignment: parameters, results, one
block for temporaries, and a trace of what lives in that block when. So the bytes are exact before the first
step. Only scratch that a library takes while it runs is not in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tensorflow.compiler.xla.service import hlo_pb2

from checkmate.errors import ProfileError

_NOTHING: NDArray[np.int64] = np.zeros(0, np.int64)
_STEP = re.compile(r"(?:^|/)step(\d+)/")  # as ``checkmate.backends.tf.xla.emit`` names what it emits


@dataclass(frozen=True, eq=False)
class XlaMemory:
    """Hold the bytes of a compiled step.

    ``argument_bytes``: parameters, optimizer and the batch. ``output_bytes``: results that get buffers of
    their own; an updated variable is written in place. ``temp_bytes``: the block for everything between.
    ``curve``: int64, the live bytes of that block after each allocation and release, in XLA's order. Its
    largest is at most ``temp_bytes``; the rest is lost between buffers. ``steps``: int64, for each of those
    the step of the schedule that makes the buffer; -1 where none does, and at a release.
    """

    argument_bytes: int
    output_bytes: int
    temp_bytes: int
    curve: NDArray[np.int64]
    steps: NDArray[np.int64]

    @property
    def peak_bytes(self) -> int:
        """Return all that the step holds: arguments, results and temporaries."""
        return self.argument_bytes + self.output_bytes + self.temp_bytes

    def live_by_step(self, count: int) -> tuple[int, ...]:
        """Return the most bytes held as each of ``count`` steps makes buffers.

        Arguments and results are included. A buffer of no step is the last step's that made one. A step whose
        values are fused into others has the bytes of the step before it. XLA orders what is not tied by
        itself, so neighbours need not follow each other. Empty where XLA told nothing of the schedule's
        steps.
        """
        known = (self.steps >= 0) & (self.steps < count)
        if not known.any():
            return ()
        latest = np.maximum.accumulate(np.where(known, np.arange(len(known)), int(known.argmax())))
        most = np.zeros(count, np.int64)
        np.maximum.at(most, self.steps[latest], self.curve)
        last = np.maximum.accumulate(np.where(most > 0, np.arange(count), 0))
        return tuple((self.argument_bytes + self.output_bytes + most[last]).tolist())

    def facts(self) -> dict[str, int]:
        """Return the parts of the bytes, by name."""
        return {
            "argument_bytes": self.argument_bytes,
            "output_bytes": self.output_bytes,
            "temp_bytes": self.temp_bytes,
        }


def read_memory(serialized: bytes) -> XlaMemory:
    """Return the memory in a serialized ``HloProto`` of an optimized module.

    Raises:
        ProfileError: it holds no assignment of buffers.
    """
    proto = hlo_pb2.HloProto()
    proto.ParseFromString(serialized)
    assignment = proto.buffer_assignment
    if not assignment.buffer_allocations:
        raise ProfileError(
            "XLA told no assignment of buffers for the step", hint="use the executor: jit_compile=False"
        )
    argument = output = temporary = 0
    for each in assignment.buffer_allocations:
        if each.is_thread_local or each.is_constant:
            continue
        if each.is_entry_computation_parameter:
            argument += each.size
        elif each.maybe_live_out:
            output += each.size
        else:
            temporary += each.size
    nothing = (_NOTHING, _NOTHING)
    curve, steps = max(_curves(proto), key=lambda each: int(each[0].max(initial=0)), default=nothing)
    return XlaMemory(
        argument_bytes=argument,
        output_bytes=output,
        temp_bytes=temporary,
        curve=curve,
        steps=steps,
    )


def _curves(proto: Any) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield, for each simulated heap, its live bytes and steps by events.

    A buffer may share the bytes of another, which then live until the last of both is released.
    """
    assignment = proto.buffer_assignment
    sizes = {each.id: each.size for each in assignment.logical_buffers}
    steps = _step_of_buffers(proto)
    kinds = hlo_pb2.HeapSimulatorTrace.Event
    for trace in assignment.heap_simulator_traces:
        live = 0
        found: list[int] = []
        makers: list[int] = []
        owner_of: dict[int, int] = {}
        users: dict[int, int] = {}
        for event in trace.events:
            owner = event.buffer_id
            if event.kind == kinds.SHARE_WITH:
                owner = owner_of.get(event.share_with_canonical_id, event.share_with_canonical_id)
                owner_of[event.buffer_id] = owner
            if event.kind == kinds.FREE:
                owner = owner_of.get(owner, owner)
                users[owner] -= 1
                live -= 0 if users[owner] else sizes[owner]
            else:
                live += 0 if users.get(owner) else sizes[owner]
                users[owner] = users.get(owner, 0) + 1
            found.append(live)
            makers.append(-1 if event.kind == kinds.FREE else steps.get(event.buffer_id, -1))
        yield np.asarray(found, np.int64), np.asarray(makers, np.int64)


def _step_of_buffers(proto: Any) -> dict[int, int]:
    """Return the step of the schedule that makes each buffer, where known."""
    names = {
        instruction.id: instruction.metadata.op_name
        for computation in proto.hlo_module.computations
        for instruction in computation.instructions
    }
    found = {}
    for each in proto.buffer_assignment.logical_buffers:
        if step := _STEP.search(names.get(each.defined_at.instruction_id, "")):
            found[each.id] = int(step[1])
    return found
