"""``MemoryReport``: memory figures in the logs of ``fit``."""

from __future__ import annotations

import warnings
from typing import Any

import keras

from checkmate.machine.supported import keras_backend, require_backend
from checkmate.runner import JAX, TORCH
from checkmate.training.memory_figures import MemoryFigures
from checkmate.units import format_bytes_apart


class MemoryReport(keras.callbacks.Callback):  # type: ignore[misc]
    """Put memory figures into the logs of each epoch.

    They are then in ``History`` and the progress bar, and in ``CSVLogger``, ``TensorBoard`` and other
    trackers that stand behind this one in ``callbacks``. A key is left out where its value is not known.

    - ``memory/peak``: bytes. Of a rematerialized model what its plan takes, measured on the allocator's meter
      (predicted where there is none), or assigned by XLA. Else what the device's meter shows, measured: since
      training began with TensorFlow and PyTorch, since the process began with JAX. Without a meter it is what
      XLA assigned to the step with JAX; what PyTorch gave out in the first step, measured; what the step's
      ops request with TensorFlow, predicted.
    - ``memory/budget``: bytes, of a rematerialized model.
    - ``memory/activations``: bytes, predicted. What waits for the backward pass when that is most; where XLA
      compiles the step, its temporary buffers. With TensorFlow's executor it is known of rematerialized
      models, and of others where there is no meter.
    - ``memory/recompute_overhead``: the share of a step's time that recomputing adds, of a rematerialized
      model. Measured where a step was timed beside the plain one, else predicted by counted operations.

    One warning says that a budget is missed. Losses and weights are the same with this callback and without.

    >>> model.fit(x, y, callbacks=[checkmate.keras.MemoryReport(), keras.callbacks.CSVLogger("log.csv")])
    """

    def __init__(self) -> None:
        super().__init__()
        self._reader: Any = None
        self._warned = False

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._reader = _reader_of(self.model)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        found: MemoryFigures = self._reader.figures()
        if logs is not None:
            logs.update(found.logs)
        if found.peak and found.budget and found.peak > found.budget and not self._warned:
            self._warned = True
            peak, budget = format_bytes_apart(found.peak, found.budget)
            said = f"the training step takes {peak}, over its budget of {budget}"
            warnings.warn(f"{said}: raise it, or use a smaller batch", RuntimeWarning, stacklevel=2)


def _reader_of(model: Any) -> Any:
    if keras_backend() == TORCH:
        from checkmate.training.memory_of_torch import TorchFigures

        return TorchFigures(model)
    if require_backend() == JAX:
        from checkmate.training.memory_of_jax import JaxFigures

        return JaxFigures(model)
    from checkmate.training.memory_of_tensorflow import TensorflowFigures

    return TensorflowFigures(model)
