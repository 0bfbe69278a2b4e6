"""A model that is ready to be traced: compiled, with random data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from checkmate.backends.tf.models.batch import BatchLayout
from checkmate.models.arrays import ArraySpec, random_input, random_label
from checkmate.models.inputs import Inputs
from checkmate.models.losses import Labels


@dataclass(frozen=True, eq=False)
class ModelLike:
    """Stand where the Keras model is, for a step without one. ``layers``: Keras's, as far as known."""

    name: str
    layers: tuple[Any, ...] = ()

    @property
    def trainable_variables(self) -> list[Any]:
        return [variable for layer in self.layers for variable in layer.trainable_variables]


@dataclass(frozen=True, eq=False)
class OwnStep:
    """A training step that is not Keras's own, and an example for it: an array for each tensor of ``layout``.

    ``spec``: what errors call it. ``sized``: it can be made for another batch size.
    """

    spec: str
    layout: BatchLayout
    call: Callable[..., Any]
    names: tuple[str, ...]
    values: tuple[np.ndarray, ...]
    sized: bool


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A compiled Keras model and the description of one batch, flat.

    Structures have the index of a spec at every leaf; -1 where an output has no loss and so no label.
    ``vocabularies``: how many token ids are legal, 0: no ids. ``label_kinds``: as in ``models.arrays``.
    ``notes``: every default that was taken. ``jit_compiled``: XLA compiles it. ``own``: the step, where it is
    not Keras's own; all its tensors are inputs then, and ``model`` may be a ``ModelLike``.
    """

    model: Any
    name: str
    batch_size: int
    input_specs: tuple[tf.TensorSpec, ...]
    label_specs: tuple[tf.TensorSpec, ...] = ()
    input_structure: Any = None
    label_structure: Any = None
    vocabularies: tuple[int, ...] = ()
    label_kinds: tuple[str, ...] = ()
    label_classes: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    jit_compiled: bool = False
    own: OwnStep | None = None

    @property
    def any_batch(self) -> bool:
        return self.own is None or self.own.sized

    def pack_inputs(self, tensors: Sequence[tf.Tensor]) -> Any:
        return _pack(self.input_structure, tensors)

    def pack_labels(self, tensors: Sequence[tf.Tensor]) -> Any:
        return _pack(self.label_structure, tensors)

    def make_batch(self, seed: int = 0) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """Return random but legal (inputs, labels), flat; the example of a step that is not Keras's own."""
        if self.own is not None:
            return [_tensor(*pair) for pair in zip(self.own.values, self.input_specs, strict=True)], []
        random = np.random.default_rng(seed)
        inputs = [
            _tensor(random_input(random, ArraySpec(tuple(spec.shape), spec.dtype.name), size), spec)
            for spec, size in zip(self.input_specs, self.vocabularies, strict=True)
        ]
        kinds = zip(self.label_specs, self.label_kinds, self.label_classes, strict=True)
        labels = [
            _tensor(random_label(random, tuple(spec.shape), kind, classes), spec)
            for spec, kind, classes in kinds
        ]
        return inputs, labels


def keras_model(
    model: Any,
    name: str,
    batch_size: int,
    inputs: Inputs,
    labels: Labels,
    *,
    notes: tuple[str, ...] = (),
    jit_compiled: bool = False,
) -> LoadedModel:
    return LoadedModel(
        model,
        name,
        batch_size,
        tuple(tf.TensorSpec(spec.shape, spec.dtype) for spec in inputs.specs),
        tuple(tf.TensorSpec(spec.shape, spec.dtype) for spec in labels.specs),
        inputs.structure,
        labels.structure,
        inputs.vocabularies,
        labels.kinds,
        labels.classes,
        notes,
        jit_compiled,
    )


def _pack(structure: Any, tensors: Sequence[tf.Tensor]) -> Any:
    return keras.tree.map_structure(lambda index: None if index < 0 else tensors[index], structure)


def _tensor(values: np.ndarray, spec: tf.TensorSpec) -> tf.Tensor:
    return tf.cast(tf.constant(values), spec.dtype)
