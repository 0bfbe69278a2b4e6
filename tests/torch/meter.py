"""Measure the bytes that PyTorch's allocator on the CPU has given out at once while a function ran.

This reads the profiler's events of single allocations and shares no code with the program's own measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from torch._C._profiler import _EventType, _ProfilerEvent
from torch.profiler import ProfilerActivity, profile


@dataclass(frozen=True)
class Metered:
    """Bytes above those that were held before the function ran.

    What it frees of those is not subtracted: PyTorch reports no such event. Buffers that a library takes by
    itself (oneDNN's scratchpads, MKL's packed matrices) and those of other threads go unreported too.
    """

    peak: int
    left: int  # still held at the end, the function's result included
    result: Any


def meter(function: Callable[[], Any]) -> Metered:
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        result = function()
    peak = held = 0
    for held in _levels(_allocations(profiled.profiler.kineto_results.experimental_event_tree())):
        peak = max(peak, held)
    return Metered(peak, held, result)


def _levels(events: Iterable[_ProfilerEvent]) -> Iterator[int]:
    """The bytes held after each event."""
    sizes: dict[int, int] = {}
    held = 0
    for event in events:
        address, change = event.extra_fields.ptr, event.extra_fields.alloc_size
        if change > 0:
            sizes[address] = change
            held += change
        else:
            # PyTorch remembers an address from one profile to the next, although it may have been freed and
            # given out anew between them: a block that this profile saw nobody request is no part of it.
            held -= sizes.pop(address, 0)
        yield held


def _allocations(tree: Iterable[_ProfilerEvent]) -> list[_ProfilerEvent]:
    """The events that allocate or free, in order of time."""
    found, todo = [], list(tree)
    while todo:
        event = todo.pop()
        todo += event.children
        if event.typed[0] == _EventType.Allocation and event.extra_fields.device.type == "cpu":
            found.append(event)
    return sorted(found, key=lambda event: event.start_time_ns)
