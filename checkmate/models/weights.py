"""The bytes of a model's weights by layer, and what its optimizer keeps by name, such as ``momentum``."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import keras
import numpy as np


def weights_and_slots(model: Any) -> dict[str, dict[str, int]]:
    """Return the bytes of the model's weights by layer, and of the optimizer's; those that it has for each
    weight are one slot.
    """
    weights, slots = defaultdict[str, int](int), defaultdict[str, int](int)
    for variable in model.weights:
        weights[variable.path.removeprefix(f"{model.name}/").rpartition("/")[0]] += _bytes_of(variable)
    names = {weight.path.replace("/", "_") for weight in model.trainable_variables}
    for variable in model.optimizer.variables:
        slots[_slot(variable.name, names)] += _bytes_of(variable)
    return {"weights": dict(weights), "optimizer": dict(slots)}


def _bytes_of(variable: Any) -> int:
    dtype = np.dtype(keras.backend.standardize_dtype(variable.dtype))
    return int(np.prod(variable.shape, dtype=np.int64)) * int(dtype.itemsize)


def _slot(name: str, weights: set[str]) -> str:
    """Keras names a slot's variable after its weight: ``block_dense_kernel_momentum``."""
    parts = name.split("_")
    cuts = (cut for cut in range(1, len(parts)) if "_".join(parts[:cut]) in weights)
    cut = max(cuts, default=0)
    return "_".join(parts[cut:])
