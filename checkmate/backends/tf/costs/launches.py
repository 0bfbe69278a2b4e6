"""Price the kernels of a GPU: their own time, or the time to launch them.

The host launches kernels one after the other, a few microseconds apart. A small kernel ends before the next
one is launched, so it costs the *launch interval*, not its own time. The interval is chosen so that all
kernels, each costing at least that much, add up to the wall time of the step. Where the kernels alone take as
long as the wall time there is no such interval, and none is needed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from checkmate.backends.tf.profiler import StepTrace
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.xla_calls import position_of

# Seconds. A host that takes longer between kernels is busy with something else than launches.
_LONGEST_INTERVAL = 50e-6

NO_KERNEL_TIMES = (
    "TensorFlow's profiler saw no GPU kernels, so ops share the step's time by operation counts; a container "
    "needs the right to profile (--cap-add=SYS_ADMIN, or NVreg_RestrictProfilingToAdminUsers=0)"
)


def launch_interval(kernels: Sequence[float], wall: float) -> float:
    """Return the least seconds that each kernel costs.

    With it, ``kernels`` (seconds) together take ``wall`` seconds. 0 where they take that long by themselves;
    at most 50 microseconds.
    """
    longest_last = np.sort(np.asarray(kernels, dtype=np.float64))
    count = len(longest_last)
    if not count or longest_last.sum() >= wall:
        return 0.0
    longer = longest_last.sum() - np.cumsum(longest_last)  # per kernel: the total time of the longer ones
    for number in range(count):
        interval = (wall - float(longer[number])) / (number + 1)
        if number + 1 == count or interval <= longest_last[number + 1]:
            return min(interval, _LONGEST_INTERVAL)
    raise AssertionError("the last kernel ends the loop")


def node_kernels(folded: FoldedStep, trace: StepTrace, steps: Sequence[int]) -> list[list[float]]:
    """Return the seconds of the kernels that each position launched.

    ``trace`` is of a GPU and of the schedule ``steps``, whose positions these are.
    """
    found: list[list[float]] = [[] for _ in steps]
    for run in trace.runs:
        position = position_of(run.name)
        if 0 <= position < len(steps):
            found[position].append((run.end_ps - run.start_ps) * 1e-12)
    return found


def launched_seconds(folded: FoldedStep, trace: StepTrace, steps: Sequence[int], wall: float) -> list[float]:
    """Return seconds per node in a trace of ``steps`` on a GPU.

    The step takes ``wall`` seconds without the profiler. The seconds are the mean over the node's executions,
    with each kernel at least at the launch interval. All are 0 where the trace has no kernels.
    """
    kernels = node_kernels(folded, trace, steps)
    interval = launch_interval([seconds for each in kernels for seconds in each], wall)
    totals, runs = [0.0] * len(folded.nodes), [0] * len(folded.nodes)
    for node, launched in zip(steps, kernels, strict=True):
        totals[node] += sum(max(seconds, interval) for seconds in launched)
        runs[node] += 1
    return [total / max(1, number) for total, number in zip(totals, runs, strict=True)]


def share_by_operations(wall: float, operations: Sequence[float], steps: Sequence[int]) -> list[float]:
    """Share the ``wall`` seconds of the step among the nodes.

    The shares follow ``operations``, one per node. This is for a step about which nothing else is known.
    """
    total = sum(operations[node] for node in steps)
    return [wall * each / total if total > 0 else wall / max(1, len(steps)) for each in operations]
