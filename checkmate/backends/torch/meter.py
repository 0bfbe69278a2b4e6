"""How many bytes a device's allocator gave out while something ran."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TypeVar

import torch
from torch.profiler import ProfilerActivity, profile, record_function

Found = TypeVar("Found")
_MARK = "checkmate:"


@dataclass
class Peaks:
    """Peaks above the bytes in use at the beginning: of the whole run, and of each op while it ran."""

    whole: int = 0
    of_op: dict[int, int] = field(default_factory=dict)


def metered(device: str, work: Callable[[], Found]) -> tuple[Found, Peaks]:
    """Return what ``work`` returns, and its peak. Ops are seen that run ``within_op``."""
    return _on_gpu(work) if device == "cuda" else _on_cpu(work)


def _on_gpu(work: Callable[[], Found]) -> tuple[Found, Peaks]:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    found = work()
    return found, Peaks(torch.cuda.max_memory_allocated() - before)


def _on_cpu(work: Callable[[], Found]) -> tuple[Found, Peaks]:
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        found = work()
    events = profiler.profiler.kineto_results.events()
    changes = sorted((each.start_ns(), each.nbytes()) for each in events if each.name() == "[memory]")
    peaks = Peaks(max(accumulate((size for _, size in changes), initial=0)))
    windows = sorted(
        (each.start_ns(), each.end_ns(), int(each.name().removeprefix(_MARK)))
        for each in events
        if each.name().startswith(_MARK)
    )
    place = 0
    for begin, end, op in windows:
        level = most = 0
        while place < len(changes) and changes[place][0] <= end:
            if changes[place][0] >= begin:
                level += changes[place][1]
                most = max(most, level)
            place += 1
        peaks.of_op[op] = max(most, peaks.of_op.get(op, 0))
    return found, peaks


def is_profiling() -> bool:
    return bool(torch.autograd._profiler_enabled())


@contextmanager
def within_op(op: int) -> Iterator[None]:
    with record_function(f"{_MARK}{op}"):
        yield
