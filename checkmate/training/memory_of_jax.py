"""Read the memory figures of a model that Keras trains on JAX."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import keras

from checkmate.backends.jax.compiled import memory_of
from checkmate.backends.jax.models.load import state_of
from checkmate.backends.jax.program import shape_of
from checkmate.fallback import planned
from checkmate.request import OnMiss
from checkmate.training.jax_function import Rematerialized
from checkmate.training.jax_keras import step_of
from checkmate.training.memory_figures import MemoryFigures


class JaxFigures:
    """The plans of a rematerialized model tell its figures. Of another one the first step is watched, to ask
    XLA about it when the epoch has ended.
    """

    def __init__(self, model: Any) -> None:
        self._model, self._step, self._seen = model, step_of(model), MemoryFigures()
        self._batch: Any = None  # shapes of the first
        plain = keras.distribution.distribution() is None and not keras.config.is_nnx_enabled()
        if self._step is None and plain and model.jit_compile and not model.run_eagerly:
            self._watch_first_step()

    def figures(self) -> MemoryFigures:
        if self._step is not None:
            return _of_plans(self._step)
        if self._batch is not None:
            self._seen = planned(self._compiled, lambda error: self._seen, OnMiss.CLOSEST)
            self._batch = None
        stats = [device.memory_stats() or {} for device in jax.local_devices()]
        peak = max(each.get("peak_bytes_in_use", 0) for each in stats)
        return MemoryFigures(int(peak) or self._seen.peak, activations=self._seen.activations)

    def _watch_first_step(self) -> None:
        model, plain = self._model, self._model.train_function

        def watched(state: Any, iterator: Any) -> Any:
            model.train_function = plain
            data = next(iterator)
            self._batch = jax.tree.map(shape_of, data)
            return plain(state, itertools.chain([data], iterator))

        model.train_function = watched

    def _compiled(self) -> MemoryFigures:
        """JAX still has the step that ran, by its function and the layout of its arguments."""
        step = jax.jit(self._model.train_step, donate_argnums=0)
        memory = memory_of(step.lower(state_of(self._model), self._batch).compile())
        return MemoryFigures(memory.whole, activations=memory.temporary)


def _of_plans(step: Rematerialized) -> MemoryFigures:
    """Return those of the layout that takes the most."""
    reports = (plan.report for plan in step.plans)
    told = max(reports, key=lambda each: each.reached.whole, default=None)
    if told is None:
        return MemoryFigures()
    reached = told.reached
    return MemoryFigures(reached.whole, told.budget_bytes, reached.temporary, told.predicted_overhead)
