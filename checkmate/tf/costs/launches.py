"""What a GPU's kernels cost a step: their own time, or the time to launch them where that is longer.

The host launches kernels one after the other, a few microseconds apart. A small kernel ends before the next is launched, so it costs
the *launch interval*, not its own time. The interval is the one for which all kernels, each costing at least that, add up to the step's
wall time. Where the kernels alone take as long as the wall there is no such interval, and none is needed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from checkmate.tf.profiler import StepTrace
from checkmate.tf.trace.coarsen import FoldedStep
from checkmate.tf.xla_calls import position_of

_LONGEST_INTERVAL = (
    50e-6  # s; a host that takes longer between kernels does something else than to launch them
)

NO_KERNEL_TIMES = (
    "TensorFlow's profiler saw no GPU kernels, so the measured time of the whole step was shared out among the ops by their "
    "operation counts; a container needs the right to profile (--cap-add=SYS_ADMIN, or the driver's option "
    "NVreg_RestrictProfilingToAdminUsers=0)"
)


def launch_interval(kernels: Sequence[float], wall: float) -> float:
    """Return the seconds that each of ``kernels`` (seconds) costs at least, so that together they take ``wall`` seconds.

    0 where they take that long by themselves; at most 50 microseconds.
    """
    longest_last = np.sort(np.asarray(kernels, dtype=np.float64))
    count = len(longest_last)
    if not count or longest_last.sum() >= wall:
        return 0.0
    longer = longest_last.sum() - np.cumsum(longest_last)  # what the kernels after each take together
    for number in range(count):
        interval = (wall - float(longer[number])) / (number + 1)
        if number + 1 == count or interval <= longest_last[number + 1]:
            return min(interval, _LONGEST_INTERVAL)
    raise AssertionError("the last kernel ends the loop")


def node_kernels(folded: FoldedStep, trace: StepTrace, steps: Sequence[int]) -> list[list[float]]:
    """Return the seconds of every kernel that each position of the schedule ``steps`` launched, in a trace of a GPU."""
    found: list[list[float]] = [[] for _ in steps]
    for run in trace.runs:
        position = position_of(run.name)
        if 0 <= position < len(steps):
            found[position].append((run.end_ps - run.start_ps) * 1e-12)
    return found


def launched_seconds(folded: FoldedStep, trace: StepTrace, steps: Sequence[int], wall: float) -> list[float]:
    """Return seconds per node in a trace of ``steps`` on a GPU whose step takes ``wall`` seconds without the profiler.

    The mean over the node's executions, each kernel at least at the launch interval; all 0 where the trace has no kernels.
    """
    kernels = node_kernels(folded, trace, steps)
    interval = launch_interval([seconds for each in kernels for seconds in each], wall)
    totals, runs = [0.0] * len(folded.nodes), [0] * len(folded.nodes)
    for node, launched in zip(steps, kernels, strict=True):
        totals[node] += sum(max(seconds, interval) for seconds in launched)
        runs[node] += 1
    return [total / max(1, number) for total, number in zip(totals, runs, strict=True)]


def shared_out(wall: float, operations: Sequence[float], steps: Sequence[int]) -> list[float]:
    """Return seconds per node where nothing but the step's ``wall`` seconds is known: shares by ``operations``, per node."""
    total = sum(operations[node] for node in steps)
    return [wall * each / total if total > 0 else wall / max(1, len(steps)) for each in operations]
