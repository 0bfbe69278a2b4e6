"""Check that a step fits the device's memory, before or after it is run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import tensorflow as tf

from checkmate.backends.tf.environment import limit_bytes
from checkmate.errors import StepTooLargeError
from checkmate.ir import Graph, Schedule
from checkmate.machine.device_memory import free_bytes
from checkmate.memory.placement import region_bytes
from checkmate.memory.simulate import simulate
from checkmate.units import format_bytes

_NO_SCRATCH = "could not execute a primitive"  # oneDNN's error when it gets no memory for scratch
_SMALLER_BATCH = "use a smaller batch, or a smaller budget"


def free_room(graph: Graph) -> int | None:
    """Return the bytes that a step may need beside its parameters on a CPU; None: not known. None on a GPU
    too: TensorFlow has taken its memory, and raises an error when it is used up."""
    if graph.device_kind == "gpu":
        return None
    free, limit = free_bytes("cpu"), limit_bytes()
    if limit is None:
        return free
    room = max(0, limit - graph.fixed_bytes)
    return room if free is None else min(free, room)


def fitting_region(graph: Graph, schedule: Schedule, *, most: int | None = None) -> int:
    limit = limit_bytes()
    left = None if limit is None else limit - graph.fixed_bytes
    sizes = (region_bytes(graph, schedule, most=most, spare=spare) for spare in (True, False))
    return _first_fitting(sizes, free_room(graph), left)


def first_region(graph: Graph, schedule: Schedule) -> int:
    """Return as ``fitting_region`` what a process may fetch before all else, for the parameters too."""
    sizes = (region_bytes(graph, schedule, spare=spare) for spare in (True, False))
    with_parameters = (graph.fixed_bytes + size for size in sizes if size)
    return _first_fitting(with_parameters, free_bytes("cpu"), limit_bytes())


def _first_fitting(sizes: Iterable[int], free: int | None, limit: int | None) -> int:
    # Half of an allocator's limit may be in its other regions, each twice as large as the one before.
    fitting = (size for size in sizes if free is None or size <= free)
    return next((size for size in fitting if limit is None or 2 * size <= limit), 0)


def require_room(
    graph: Graph, schedule: Schedule, *, what: str = "the step", beside: int = 0, hint: str = _SMALLER_BATCH
) -> None:
    """Raise an error if a CPU has no room for a step, before running it ends this process or others.
    ``beside``: bytes that are needed at the same time."""
    needed = simulate(graph, schedule).peak_bytes - graph.fixed_bytes + beside
    free = free_room(graph)
    if free is not None and needed > free:
        raise StepTooLargeError(
            f"{what} needs {format_bytes(needed)} beside its parameters, and {format_bytes(free)} are free",
            hint=hint,
            details={"needed_bytes": needed, "free_bytes": free, "fixed_bytes": graph.fixed_bytes},
        )


@contextmanager
def explain_exhausted_memory(what: str, hint: str = _SMALLER_BATCH) -> Iterator[None]:
    """Raise a ``StepTooLargeError`` for any error that says that memory ran out while ``what`` runs."""
    try:
        yield
    except (tf.errors.ResourceExhaustedError, tf.errors.AbortedError, MemoryError) as error:
        if isinstance(error, tf.errors.AbortedError) and _NO_SCRATCH not in str(error):
            raise
        said = f"{what} does not fit the device's memory: {first_line_of(error)}"
        raise StepTooLargeError(said, hint=hint) from error


def first_line_of(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
