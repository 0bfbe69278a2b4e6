"""Compile a step with XLA, run nothing, and read its memory: the bytes that it assigns while it compiles.

Only scratch that a library takes while it runs is not among them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.compiler.xla.service import hlo_pb2

from checkmate.backends.tf.emit.saved_model import save_function, with_names
from checkmate.backends.tf.emit.set_aside import SmallChunks
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.xla.tied import XlaEmission, tied_step
from checkmate.errors import NotCompiledError, ProfileError
from checkmate.ir import Schedule
from checkmate.models.error_text import first_line

_STAGE = "optimized_hlo_proto_serialized"
_NOTHING: NDArray[np.int64] = np.zeros(0, np.int64)
_STEP = re.compile(r"(?:^|/)step(\d+)/")  # as ``checkmate.backends.tf.xla.tied`` names what it emits


@dataclass(frozen=True, eq=False)
class XlaMemory:
    """The bytes of a compiled step.

    ``argument_bytes``: parameters, optimizer and the batch. ``output_bytes``: results with buffers of their
    own; an updated variable is written in place. ``temp_bytes``: the block of all temporary buffers.
    ``curve``: int64, the live bytes in that block after each allocation and release, in XLA's order; less
    than ``temp_bytes`` because of fragmentation. ``steps``: int64, per entry of ``curve``, the schedule's
    step that allocates; -1 if no step does, and for a release.
    """

    argument_bytes: int
    output_bytes: int
    temp_bytes: int
    curve: NDArray[np.int64]
    steps: NDArray[np.int64]

    @property
    def peak_bytes(self) -> int:
        return self.argument_bytes + self.output_bytes + self.temp_bytes

    def live_by_step(self, count: int) -> tuple[int, ...]:
        """Return the peak during each of ``count`` steps, arguments and results included.

        An allocation that belongs to no step counts for the last step that allocated. A step without a
        buffer, whose values are fused into others, has the bytes of the step before it. Empty if XLA names no
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


def read_memory(serialized: bytes) -> XlaMemory:
    """Read a serialized ``HloProto``; a ProfileError: it holds no assignment of buffers."""
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
    # A buffer may share the bytes of another, which then live until the last of both is released.
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


@dataclass(frozen=True, eq=False)
class StepCompilation:
    memory: XlaMemory
    seconds: float


def compile_step(body: Callable[..., Any], specs: Sequence[tf.TensorSpec]) -> StepCompilation:
    """Compile ``body`` for tensors like ``specs``, and run nothing; a NotCompiledError: XLA cannot."""
    started = time.perf_counter()
    function = tf.function(body, autograph=False, jit_compile=True)
    try:
        serialized = function.experimental_get_compiler_ir(*specs)(stage=_STAGE)
    except (ValueError, TypeError, NotImplementedError, tf.errors.OpError) as error:
        raise NotCompiledError(
            f"XLA cannot compile the step: {first_line(error)}",
            hint="compile the model with jit_compile=False, so that TensorFlow's executor runs it",
        ) from error
    return StepCompilation(read_memory(serialized), time.perf_counter() - started)


def save_compiled_step(
    folded: FoldedStep, schedule: Schedule, xla: XlaEmission, directory: Path
) -> tuple[str, ...]:
    """Write a SavedModel as ``save_step`` does, whose step XLA compiles at its first call."""
    body = with_names(folded, tied_step(folded, schedule, tied=xla.tied))
    chunks = SmallChunks(None, region=xla.region)
    return save_function(folded, body, directory, small_chunks=chunks, compiled=True)
