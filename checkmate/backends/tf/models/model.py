"""A model that is ready to be traced: compiled, with random data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from checkmate.backends.tf.models.batch import BatchLayout
from checkmate.models.arrays import packed
from checkmate.models.inputs import Inputs
from checkmate.models.losses import Labels

NO_INPUTS, NO_LABELS = Inputs((), (), ()), Labels((), (), (), ())


@dataclass(frozen=True, eq=False)
class ModelLike:
    """Stands in for the Keras model of a step that has none. ``layers``: Keras's, as far as known."""

    name: str
    layers: tuple[Any, ...] = ()

    @property
    def trainable_variables(self) -> list[Any]:
        return [variable for layer in self.layers for variable in layer.trainable_variables]


@dataclass(frozen=True, eq=False)
class OwnStep:
    """A training step that is not Keras's own, and an example for it: an array for each tensor of ``layout``.
    ``spec``: what errors call it. ``sized``: it can be made for another batch size."""

    spec: str
    layout: BatchLayout
    call: Callable[..., Any]
    names: tuple[str, ...]
    values: tuple[np.ndarray, ...]
    sized: bool


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A compiled Keras model and the description of one batch, flat. ``notes``: every default that was taken.
    ``jit_compiled``: XLA compiles it. ``own``: the step, where it is not Keras's own; all its tensors are
    inputs then, nothing more is known of them and of labels, and ``model`` may be a ``ModelLike``.
    ``as_written``: the step's own recomputation stays in it."""

    model: Any
    name: str
    batch_size: int
    input_specs: tuple[tf.TensorSpec, ...]
    label_specs: tuple[tf.TensorSpec, ...] = ()
    inputs: Inputs = NO_INPUTS
    labels: Labels = NO_LABELS
    notes: tuple[str, ...] = ()
    jit_compiled: bool = False
    own: OwnStep | None = None
    as_written: bool = False

    @property
    def specs(self) -> tuple[tf.TensorSpec, ...]:
        """What the step takes: inputs, then labels."""
        return (*self.input_specs, *self.label_specs)

    @property
    def any_batch(self) -> bool:
        return self.own is None or self.own.sized

    def pack(self, tensors: Sequence[tf.Tensor]) -> tuple[Any, Any]:
        """Return flat inputs and labels as the model's call and its loss take them."""
        count = len(self.input_specs)
        return packed(self.inputs.structure, tensors[:count]), packed(self.labels.structure, tensors[count:])

    def make_batch(self, seed: int = 0) -> list[tf.Tensor]:
        """Return random but legal inputs and labels; the example of a step that is not Keras's own."""
        random = np.random.default_rng(seed)
        own = None if self.own is None else self.own.values
        values = own or [*self.inputs.random(random), *self.labels.random(random)]
        return [
            tf.cast(tf.constant(value), spec.dtype) for value, spec in zip(values, self.specs, strict=True)
        ]


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
    x, y = _specs(inputs), _specs(labels)
    return LoadedModel(model, name, batch_size, x, y, inputs, labels, notes, jit_compiled)


def _specs(described: Inputs | Labels) -> tuple[tf.TensorSpec, ...]:
    return tuple(tf.TensorSpec(spec.shape, spec.dtype) for spec in described.specs)
