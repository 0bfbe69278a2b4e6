"""Read the memory figures of a model that Keras trains on PyTorch."""

from __future__ import annotations

from typing import Any

import keras
import torch

from checkmate.backends.torch.meter import is_profiling, metered
from checkmate.training.memory_figures import MemoryFigures


class TorchFigures:
    """A GPU's meter tells the peak since training began. A CPU has none: PyTorch's profiler watches the first
    step, unless a profiler of the user's does.
    """

    def __init__(self, model: Any) -> None:
        self._model, self._peak = model, 0
        self._on_gpu = any(variable.value.device.type == "cuda" for variable in model.variables)
        if self._on_gpu:
            torch.cuda.reset_peak_memory_stats()
        elif not model.jit_compile:
            self._watch_first_step()

    def figures(self) -> MemoryFigures:
        return MemoryFigures(torch.cuda.max_memory_allocated() if self._on_gpu else self._peak or None)

    def _watch_first_step(self) -> None:
        model, plain = self._model, self._model.train_function

        def watched(data: Any) -> Any:
            model.train_function = plain
            if is_profiling():  # a second profiler would end the first
                return plain(data)
            variables = [each.value for each in (*model.variables, *model.optimizer.variables)]
            held = sum({each.data_ptr(): each.nbytes for each in [*variables, *_tensors(data)]}.values())
            logs, peaks = metered("cpu", lambda: plain(data))
            self._peak = held + peaks.whole
            return logs

        model.train_function = watched


def _tensors(data: Any) -> list[torch.Tensor]:
    return [leaf for leaf in keras.tree.flatten(data) if isinstance(leaf, torch.Tensor)]
