from __future__ import annotations

from itertools import pairwise

import numpy as np

from checkmate.charts.frontier import COLORS
from checkmate.charts.svg_chart import ACCENT, LARGE, Chart, Size
from checkmate.ir import Schedule
from checkmate.units import plural

_MOST = 2400  # runs that are drawn; there are hardly as many pixels
_AGAIN = COLORS[2]


def order_svg(schedule: Schedule, size: Size = LARGE) -> str:
    """Draw which op runs in which step: what is known of a schedule without its graph."""
    steps, first = schedule.steps, schedule.first_occurrence
    chart = Chart((0.0, float(len(steps))), (0.0, float(steps.max() + 1)), size)
    chart.axes("step", "op, in the graph's order")
    new_run = (np.diff(steps) != 1) | (first[1:] != first[:-1])
    edges = np.concatenate([[0], np.flatnonzero(new_run) + 1, [len(steps)]])
    runs = list(pairwise(edges.tolist()))
    for begin, end in runs[:: 1 + len(runs) // _MOST]:
        op = float(steps[begin])
        color, width = (ACCENT, 2.2) if first[begin] else (_AGAIN, 5.0)
        chart.line([(begin, op), (end, op + end - begin - 1)], color, width=width)
    chart.legend_line(ACCENT, "computed first")
    if schedule.recomputations:
        chart.legend_line(_AGAIN, "recomputation")
    again = plural(schedule.recomputations, "recomputation")
    return chart.svg("The order of execution", f"{len(steps):,} steps, {again}")
