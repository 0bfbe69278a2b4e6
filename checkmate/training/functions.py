from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from checkmate.backends.tf.devices import emitted
from checkmate.backends.tf.models.batch import BatchLayout, Key
from checkmate.backends.tf.private import letting_go, without_retracing_warning
from checkmate.errors import CheckmateError
from checkmate.fallback import planned
from checkmate.ir import Schedule
from checkmate.training.planner import Planner


class Functions:
    """The compiled function of each layout of ``planner``; a new plan gets a new function."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._made: dict[tuple[Key, ...], tuple[list[Schedule | None], Any]] = {}

    def run(self, layouts: Sequence[BatchLayout], body: Callable[..., Any], *given: Any) -> Any:
        """Run ``body`` on ``given``, compiled for ``layouts`` with their present schedules. If TensorFlow
        rejects the schedules, the plain steps run."""
        key, schedules = tuple(layout.key for layout in layouts), self._schedules(layouts)
        if key in self._made:
            before, function = self._made[key]
            if all(old is new for old, new in zip(before, schedules, strict=True)):
                return function(*given)
            del self._made[key], function
            gc.collect()  # frees the old function's constants in the device's memory
        function = self._compiled(layouts, body, given)
        self._made[key] = self._schedules(layouts), function
        return function(*given)

    def _schedules(self, layouts: Sequence[BatchLayout]) -> list[Schedule | None]:
        plans = map(self._planner.planned, layouts)
        return [None if plan is None else plan.schedule for plan in plans]

    def _compiled(
        self, layouts: Sequence[BatchLayout], body: Callable[..., Any], given: Sequence[Any]
    ) -> Callable[..., Any]:
        function = tf.function(letting_go(body), autograph=False, reduce_retracing=True)
        made = without_retracing_warning(function)
        plans = map(self._planner.planned, layouts)
        steps = [plan.step for plan in plans if plan is not None and plan.schedule is not None]
        if not steps or steps[0] is None:
            return made  # type: ignore[no-any-return]
        kind = steps[0].graph.device_kind

        def scheduled() -> Callable[..., Any]:
            made.get_concrete_function(*given)  # nothing has run yet
            return emitted(made, kind)

        def plain(error: CheckmateError) -> Callable[..., Any]:
            self._planner.give_up(layouts, error)
            return self._compiled(layouts, body, given)

        return planned(scheduled, plain, self._planner.request.on_miss)
