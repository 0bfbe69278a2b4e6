"""Read the memory figures of a model that TensorFlow trains."""

from __future__ import annotations

from functools import partial
from typing import Any

import keras
import tensorflow as tf

from checkmate.backends.tf.devices import has_meter, peak_bytes, reset_peak
from checkmate.backends.tf.live.keras_step import samples_seen
from checkmate.backends.tf.live.trace import step_of_fit
from checkmate.backends.tf.models.batch import flatten
from checkmate.backends.tf.models.own_step import has_own_step
from checkmate.errors import DynamicShapeError
from checkmate.fallback import planned
from checkmate.ir import Schedule
from checkmate.memory.layers import activation_bytes
from checkmate.memory.simulate import simulate
from checkmate.request import OnMiss
from checkmate.training.memory_figures import MemoryFigures


class TensorflowFigures:
    """The plans of a rematerialized model tell its figures, the meter another one's peak. Where there is
    none, the first step is watched, to trace it once more for that batch when the epoch has ended.
    """

    def __init__(self, model: Any) -> None:
        self._model, self._seen = model, MemoryFigures()
        self._training = getattr(model.train_function, "training", None)
        self._first: tuple[Any, int] | None = None  # the first batch's spec, and its samples; 0: not known
        self._meters = _meters() if self._training is None else []
        for meter in self._meters:
            reset_peak(meter)
        if self._training is None and not self._meters and _is_usual(model):
            self._watch_first_step()

    def figures(self) -> MemoryFigures:
        if self._training is not None:
            found: MemoryFigures = self._training.figures()
            return found
        if self._meters:
            return MemoryFigures(max(map(peak_bytes, self._meters)))
        if self._first is not None:
            batch, self._first = partial(_batch, *self._first), None
            self._seen = planned(lambda: self._predicted(batch()), lambda _: self._seen, OnMiss.CLOSEST)
        return self._seen

    def _watch_first_step(self) -> None:
        model, plain = self._model, self._model.train_function

        def watched(iterator: Any) -> Any:
            model.train_function = plain
            logs = plain(iterator)
            if isinstance(iterator, tf.data.Iterator):
                self._first = iterator.element_spec, samples_seen(model)
            return logs

        model.train_function = watched

    def _predicted(self, batch: Any) -> MemoryFigures:
        layout, _ = flatten(batch)
        layout.require_plannable()
        step = step_of_fit(self._model, layout)
        if step.folded.traced.taken_out:  # what it recomputes by itself is not in the graph
            return MemoryFigures()
        graph, plain = step.graph, Schedule.plain(step.graph)
        return MemoryFigures(simulate(graph, plain).peak_bytes, activations=activation_bytes(graph, plain))


def _is_usual(model: Any) -> bool:
    """Whether the executor runs Keras's own step, on one batch at a time, so that its layout can be known."""
    compiled = model.run_eagerly or model.jit_compile
    several = model.steps_per_execution > 1 or model.distribute_strategy.num_replicas_in_sync > 1
    return not (compiled or several or has_own_step(model))


def _meters() -> list[str]:
    gpus = [f"GPU:{number}" for number in range(len(tf.config.list_logical_devices("GPU")))]
    return [meter for meter in gpus or ["CPU:0"] if has_meter(meter)]


def _batch(spec: Any, samples: int) -> Any:
    """Return zeros in the layout of a batch, of which ``spec`` may leave open how many samples it has."""

    def zeros(leaf: Any) -> Any:
        if leaf is None or isinstance(leaf, tf.OptionalSpec):
            return None
        dense = isinstance(leaf, tf.TensorSpec) and leaf.shape.rank is not None
        shape = leaf.shape.as_list() if dense else [None, None]
        if shape and shape[0] is None:
            shape[0] = samples or None
        if None in shape:
            raise DynamicShapeError(f"the layout of a batch is open: {leaf}")
        return tf.zeros(shape, leaf.dtype)

    with tf.device("CPU:0"):
        return keras.tree.map_structure(zeros, spec)
