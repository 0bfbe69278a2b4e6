"""Read what TensorFlow's profiler saw of one step: op times, allocations (``xplane.proto``)."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from checkmate.backends.tf import private

# TensorFlow's names: the plain allocator, oneDNN's, and the one that TF_CPU_ALLOCATOR_USE_BFC chooses.
_CPU_ALLOCATORS = frozenset({"cpu", "mklcpu", "bfc_cpu_allocator_for_gpu"})
# The allocator of the GPU in use; each process sees one GPU. gpu_host_bfc hands out the host's memory.
_GPU_ALLOCATORS = frozenset({"GPU_0_bfc"})
_WANTED = frozenset(
    {
        "requested_bytes", "allocation_bytes", "bytes_allocated", "addr", "allocator_name", "tf_op",
        "region_type",
    }
)  # fmt: skip
_TIMED, _LONG_S = 6, 2.0  # calls that are timed, and seconds after which no further one is
_SIGNS = {"MemoryAllocation": 1, "MemoryDeallocation": -1}
# Lines that sum kernels up; the kernels themselves are in one line per stream.
_SUMMARIES = frozenset(
    {
        "Steps", "TensorFlow Ops", "TensorFlow Name Scope", "Framework Ops", "Framework Name Scope",
        "XLA Modules", "XLA Ops", "Source code",
    }
)  # fmt: skip


@dataclass(frozen=True)
class MemoryEvent:
    """One allocation (positive) or release (negative) of the bytes that an op asked for, and of the chunk it
    got. ``in_use``: the allocator's own total after it. ``op``: the emitted op that asked (empty for a
    release). ``temporary``: scratch memory, not an output."""

    time_ps: int
    requested_bytes: int
    allocated_bytes: int
    in_use: int
    op: str
    address: int = 0
    temporary: bool = False


@dataclass(frozen=True)
class OpRun:
    name: str
    start_ps: int
    end_ps: int
    type: str = ""


@dataclass(frozen=True)
class StepTrace:
    """The ops that ran in a step, ordered by start, and the events of the device's allocator, by time."""

    runs: tuple[OpRun, ...]
    memory: tuple[MemoryEvent, ...]

    @property
    def seconds_by_op(self) -> Mapping[str, float]:
        found: dict[str, float] = {}
        for run in self.runs:
            found[run.name] = found.get(run.name, 0.0) + (run.end_ps - run.start_ps) * 1e-12
        return found

    @property
    def op_seconds(self) -> float:
        return sum(self.seconds_by_op.values())

    @property
    def requested_peak(self) -> int:
        """The most bytes that the step had requested at once, beside those held before it."""
        total = peak = 0
        for event in self.memory:
            total += event.requested_bytes
            peak = max(peak, total)
        return peak


def trace_run(run: Callable[[], object], *, device: str) -> StepTrace:
    """Profile one call of ``run``. ``device``: ``cpu`` or ``gpu``: whose allocator and kernels are wanted."""
    # Without options: the defaults are what is wanted, and TensorFlow warns of each number that is given.
    with tempfile.TemporaryDirectory(prefix="checkmate-trace-") as folder:
        with private.without_notes():
            tf.profiler.experimental.start(folder)
            try:
                run()
            finally:
                tf.profiler.experimental.stop()
        space = xplane_pb2.XSpace()
        for path in Path(folder).rglob("*.xplane.pb"):
            space.MergeFromString(path.read_bytes())
    return read_trace(space, device)


def least_seconds(*runs: Callable[[], object], device: str) -> list[float]:
    """Return the least that a call of each of ``runs`` takes, called in turn without the profiler, which
    costs more where ops are small. On a CPU it is processor time, which other programs change least.
    """
    clock = time.process_time if device == "cpu" else time.perf_counter
    found: list[list[float]] = [[] for _ in runs]
    while len(found[0]) < _TIMED and max(map(sum, found)) < _LONG_S:
        for run, seconds in zip(runs, found, strict=True):
            begun = clock()
            run()
            seconds.append(clock() - begun)
    return [min(seconds) for seconds in found]


def read_trace(space: Any, device: str) -> StepTrace:
    return StepTrace(_runs(space, device), _memory(space, device))


def _runs(space: Any, device: str) -> tuple[OpRun, ...]:
    found: list[OpRun] = []
    for plane in space.planes:
        on_gpu = plane.name.startswith("/device:GPU")
        if on_gpu != (device == "gpu") or not (on_gpu or plane.name.startswith("/host:CPU")):
            continue
        names = {key: entry.name for key, entry in plane.event_metadata.items()}
        facts = _Facts(plane)
        for line in plane.lines:
            for event in () if line.name in _SUMMARIES else line.events:
                label = facts.of(event).get("tf_op", "") if on_gpu else names[event.metadata_id]
                name, separator, kind = str(label).rpartition(":")
                if separator and not name.endswith(":"):
                    start = line.timestamp_ns * 1000 + event.offset_ps
                    found.append(OpRun(name, start, start + event.duration_ps, kind))
    return tuple(sorted(found, key=lambda run: run.start_ps))


def _memory(space: Any, device: str) -> tuple[MemoryEvent, ...]:
    events: list[MemoryEvent] = []
    allocators = _GPU_ALLOCATORS if device == "gpu" else _CPU_ALLOCATORS
    for plane in space.planes:
        signs = {
            key: _SIGNS[entry.name] for key, entry in plane.event_metadata.items() if entry.name in _SIGNS
        }
        facts = _Facts(plane)
        for line in plane.lines if signs else ():
            for event in line.events:
                sign = signs.get(event.metadata_id)
                told = {} if sign is None else facts.of(event)
                if sign is None or told.get("allocator_name") not in allocators:
                    continue
                events.append(
                    MemoryEvent(
                        time_ps=line.timestamp_ns * 1000 + event.offset_ps,
                        requested_bytes=sign * int(told.get("requested_bytes", 0)),
                        allocated_bytes=sign * int(told.get("allocation_bytes", 0)),
                        in_use=int(told.get("bytes_allocated", 0)),
                        op=str(told.get("tf_op", "")),
                        address=int(told.get("addr", 0)),
                        temporary=told.get("region_type") == "temp",
                    )
                )
    # The allocator's lock orders the events. At equal times releases come first: chunks are reused after
    # that.
    return tuple(sorted(events, key=lambda event: (event.time_ps, event.requested_bytes)))


class _Facts:
    """Reads the wanted facts of events only: a step has tens of thousands, each with a dozen facts."""

    def __init__(self, plane: Any) -> None:
        self._names = {key: entry.name for key, entry in plane.stat_metadata.items()}
        self._wanted = {key: name for key, name in self._names.items() if name in _WANTED}

    def of(self, event: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for stat in event.stats:
            name = self._wanted.get(stat.metadata_id)
            if name is not None:
                kind = stat.WhichOneof("value")
                value = getattr(stat, kind) if kind else 0
                found[name] = self._names.get(value, "") if kind == "ref_value" else value
        return found
