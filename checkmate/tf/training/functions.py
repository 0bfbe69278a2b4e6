"""Keep a compiled function for each layout, made anew with its plan."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from checkmate.ir.schedule import Schedule
from checkmate.tf.devices import emitted
from checkmate.tf.models.batch import BatchLayout, Key
from checkmate.tf.private import letting_go, without_retracing_warning
from checkmate.tf.training.plans.planner import Planner


class Functions:
    """Hold the compiled functions of the steps that ``planner`` plans."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._made: dict[tuple[Key, ...], tuple[list[Schedule | None], Any]] = {}

    def of(self, layouts: Sequence[BatchLayout], body: Callable[..., Any]) -> Any:
        """Return ``body`` compiled for ``layouts`` and their present schedules."""
        key = tuple(layout.key for layout in layouts)
        plans = [self._planner.planned(layout) for layout in layouts]
        schedules = [None if plan is None else plan.schedule for plan in plans]
        if key in self._made:
            before, function = self._made[key]
            if all(old is new for old, new in zip(before, schedules, strict=True)):
                return function
            del self._made[key], function
            gc.collect()  # its constants are in the device's memory
        made = without_retracing_warning(tf.function(letting_go(body), autograph=False))
        steps = [plan.step for plan in plans if plan is not None and plan.schedule is not None]
        if steps and steps[0] is not None:
            made = emitted(made, steps[0].graph.device_kind)
        self._made[key] = schedules, made
        return made
