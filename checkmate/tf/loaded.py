"""A model ready to be traced: compiled, its batch described, random data for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A compiled Keras model and one batch's description.

    ``input_specs``, ``label_specs``: flat, in the order the step takes them. ``label_kinds``: per label ``float``,
    ``binary``, ``one_hot`` or ``class``; ``label_classes``: number of classes (0 where it does not apply).
    ``vocabularies``: per input the number of legal token ids, 0 for real-valued inputs. ``notes``: every default taken.
    """

    model: Any
    name: str
    batch_size: int
    input_specs: tuple[tf.TensorSpec, ...]
    label_specs: tuple[tf.TensorSpec, ...]
    label_kinds: tuple[str, ...]
    label_classes: tuple[int, ...]
    vocabularies: tuple[int, ...]
    notes: tuple[str, ...]
    jit_compiled: bool = False

    def pack_inputs(self, tensors: Sequence[tf.Tensor]) -> Any:
        """Flat inputs as the model's call takes them."""
        return tensors[0] if len(tensors) == 1 else list(tensors)

    def pack_labels(self, tensors: Sequence[tf.Tensor]) -> Any:
        """Flat labels in the structure of the model's outputs."""
        if len(tensors) == 1 and not isinstance(self._output_structure, (dict, list, tuple)):
            return tensors[0]
        return tf.nest.pack_sequence_as(self._output_structure, list(tensors))

    @property
    def _output_structure(self) -> Any:
        return getattr(self.model, "_outputs_struct", None) if getattr(self.model, "outputs", None) else None

    def make_batch(self, seed: int = 0) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """Random but legal (inputs, labels): token ids within the vocabulary, class ids within the classes."""
        random = np.random.default_rng(seed)
        inputs = [
            _tensor(random.integers(0, size, spec.shape) if size else random.random(spec.shape), spec)
            for spec, size in zip(self.input_specs, self.vocabularies, strict=True)
        ]
        labels = [
            _tensor(_labels(random, tuple(spec.shape), kind, classes), spec)
            for spec, kind, classes in zip(self.label_specs, self.label_kinds, self.label_classes, strict=True)
        ]
        return inputs, labels


def _labels(random: np.random.Generator, shape: tuple[int, ...], kind: str, classes: int) -> np.ndarray:
    if kind == "class":
        return random.integers(0, classes, shape)
    if kind == "one_hot":
        return np.eye(shape[-1])[random.integers(0, shape[-1], shape[:-1])]
    if kind == "binary":
        return random.integers(0, 2, shape)
    return random.random(shape)


def _tensor(values: np.ndarray, spec: tf.TensorSpec) -> tf.Tensor:
    return tf.cast(tf.constant(values), spec.dtype)
