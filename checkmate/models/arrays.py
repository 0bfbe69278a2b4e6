"""Say what arrays a step takes, and make random ones that are legal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

FLOAT, BINARY, ONE_HOT, CLASS = "float", "binary", "one_hot", "class"


@dataclass(frozen=True)
class ArraySpec:
    shape: tuple[int, ...]
    dtype: str

    @property
    def is_integer(self) -> bool:
        return self.dtype.startswith(("int", "uint"))


def random_input(random: np.random.Generator, spec: ArraySpec, vocabulary: int) -> np.ndarray:
    """Return random values for an input. ``vocabulary``: how many token ids are legal; 0 where it holds no
    ids. Ids avoid 0 if they can: it often means padding, and a step without padding is the one to measure."""
    if spec.dtype == "bool":
        return random.integers(0, 2, spec.shape)
    if vocabulary:
        return random.integers(1 if vocabulary > 2 else 0, vocabulary, spec.shape)
    return random.random(spec.shape, dtype=np.float32)


def random_label(random: np.random.Generator, shape: tuple[int, ...], kind: str, classes: int) -> np.ndarray:
    if kind == CLASS:
        return random.integers(0, classes, shape)
    if kind == ONE_HOT:
        return np.eye(shape[-1], dtype=np.float32)[random.integers(0, shape[-1], shape[:-1])]
    if kind == BINARY:
        return random.integers(0, 2, shape)
    return random.random(shape, dtype=np.float32)


def packed(structure: Any, flat: Sequence[Any]) -> Any:
    """Return ``structure``, which has indices at its leaves, with those of ``flat``; None for -1."""
    return keras.tree.map_structure(lambda index: None if index < 0 else flat[index], structure)
