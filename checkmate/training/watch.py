"""Watch the allocator while planned steps run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkmate.backends.tf.devices import has_meter, peak_bytes, reset_peak
from checkmate.backends.tf.models.batch import BatchLayout
from checkmate.training.plan import held_by_others, meter_of
from checkmate.training.planner import Planner, distinct


@dataclass(frozen=True)
class MeterReading:
    """The allocator's meter between two steps: its peak, and the bytes in use that are not the step's own."""

    peak_bytes: int = 0
    others_bytes: int = 0


def reading_of(planner: Planner, layout: BatchLayout) -> MeterReading:
    """Read the allocator's meter; zeros if the plan is not watched or there is no meter."""
    plan = planner.planned(layout)
    if plan is None or not plan.peak_bytes or plan.step is None:
        return MeterReading()
    meter = meter_of(plan.step.graph)
    if not has_meter(meter):
        return MeterReading()
    return MeterReading(peak_bytes(meter), held_by_others(plan.step.graph))


def went_over(planner: Planner, layouts: Sequence[BatchLayout], before: MeterReading) -> bool:
    """Correct the plans if the last step exceeded the budget; return whether they changed. ``before``: the
    reading before that step; only a new peak counts. A step that warms up does not count, and the peak
    counter is reset after it. If the excess is due to other allocations, the step is planned again beside
    them."""
    after = reading_of(planner, layouts[0])
    plan, allowed = planner.planned(layouts[0]), planner.watched_bytes(layouts[0])
    warmed_up = [planner.warmed_up(layout) for layout in layouts]
    if any(warmed_up):
        over = after.peak_bytes > max(before.peak_bytes, planner.allowed_bytes or 0)
        if over and plan is not None and plan.step is not None:
            reset_peak(meter_of(plan.step.graph))
        return False
    if allowed is None or not before.peak_bytes < after.peak_bytes or after.peak_bytes <= allowed:
        return False
    others = max(before.others_bytes, after.others_bytes)
    # The constants that the step's own function keeps are not other allocations.
    more = 0 if plan is None else others - plan.constant_bytes - plan.foreseen_bytes
    if after.peak_bytes - max(0, more) <= allowed:
        found = [
            planner.crowded(layout, after.peak_bytes, others - plan.constant_bytes, more)
            for layout in distinct(layouts)
            if (plan := planner.planned(layout)) is not None
        ]
        return any(found)
    for layout in layouts:
        if planner.planned(layout) is not None:
            planner.exceeded(layout, after.peak_bytes)
    return True
