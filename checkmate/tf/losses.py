"""Losses and labels: what a model is trained against where it does not say, and what its labels look like."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from checkmate.errors import UsageError
from checkmate.request import ModelRequest


@dataclass(frozen=True)
class Labels:
    """Flat specs, kinds and class counts of one batch's labels; see ``LoadedModel``."""

    specs: tuple[tf.TensorSpec, ...]
    kinds: tuple[str, ...]
    classes: tuple[int, ...]


def compile_defaults(model: Any, request: ModelRequest) -> list[str]:
    """Compile ``model`` where it is not, or where the request overrides its loss or optimizer; what was done, in words.

    Raises:
        UsageError: Keras does not know the loss or the optimizer.
    """
    notes: list[str] = []
    compiled = bool(getattr(model, "compiled", False)) and model.optimizer is not None
    if compiled and request.loss is None and request.optimizer is None:
        return notes
    own_loss = model.loss if compiled else None
    loss = request.loss or own_loss or default_losses(model)
    optimizer = request.optimizer or (model.optimizer if compiled else "adam")
    if not compiled:
        chosen = f"loss {_wording(loss)}" if request.loss is None else f"loss {request.loss}"
        notes.append(f"the model is not compiled: {chosen}, optimizer {optimizer}")
    else:
        notes.append(f"compiled with loss {_wording(loss)}, optimizer {_wording(optimizer)} instead of its own")
    try:
        model.compile(optimizer=keras.optimizers.get(optimizer), loss=loss, jit_compile=False)
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"Keras cannot compile the model: {(str(error).splitlines() or [''])[0][:200]}",
            hint="--loss and --optimizer take Keras names, e.g. categorical_crossentropy and adam",
        ) from error
    return notes


def default_losses(model: Any) -> Any:
    """Per output: a cross-entropy after softmax or sigmoid, else the mean squared error."""
    losses = [_default_loss(layer) for layer in _output_layers(model)]
    return losses[0] if len(losses) == 1 else losses


def _default_loss(layer: Any) -> str:
    activation = getattr(getattr(layer, "activation", None), "__name__", "")
    return {"softmax": "categorical_crossentropy", "sigmoid": "binary_crossentropy"}.get(
        activation, "mean_squared_error"
    )


def _output_layers(model: Any) -> Iterator[Any]:
    outputs = getattr(model, "outputs", None)
    if not outputs:
        yield model.layers[-1] if model.layers else None
        return
    for tensor in outputs:
        yield tensor._keras_history.operation


def describe_labels(model: Any, batch_size: int) -> Labels:
    """What labels the model's losses take."""
    outputs = getattr(model, "outputs", None)
    shapes = [tuple(t.shape[1:]) for t in outputs] if outputs else [_called_shape(model, batch_size)]
    losses = _flat_losses(model, len(shapes))
    kinds = [_label_kind(loss) for loss in losses]
    specs = []
    classes = []
    for shape, kind in zip(shapes, kinds, strict=True):
        specs.append(
            tf.TensorSpec((batch_size, *shape[:-1]), tf.int32)
            if kind == "class"
            else tf.TensorSpec((batch_size, *shape), tf.float32)
        )
        classes.append(int(shape[-1]) if kind == "class" and shape else 0)
    return Labels(tuple(specs), tuple(kinds), tuple(classes))


def _called_shape(model: Any, batch_size: int) -> tuple[int, ...]:
    shape = model.compute_output_shape(getattr(model, "_build_shapes_dict", {}).get("input_shape") or model.input_shape)
    return tuple(shape[1:])


def _flat_losses(model: Any, count: int) -> list[Any]:
    loss = model.loss
    if isinstance(loss, dict):
        names = list(getattr(model, "output_names", loss))
        return [loss.get(name) for name in names]
    if isinstance(loss, (list, tuple)):
        return list(tf.nest.flatten(loss))
    return [loss] * count


def _label_kind(loss: Any) -> str:
    name = loss if isinstance(loss, str) else getattr(loss, "name", None) or getattr(loss, "__name__", "")
    name = str(name).lower()
    if name.startswith("sparse") or "sparse_categorical" in name or name == "sparsecategoricalcrossentropy":
        return "class"
    if "categorical" in name:
        return "one_hot"
    return "binary" if "binary" in name else "float"


def _wording(thing: Any) -> str:
    if isinstance(thing, (list, tuple)):
        return ", ".join(map(_wording, thing))
    return thing if isinstance(thing, str) else str(getattr(thing, "name", None) or type(thing).__name__)
