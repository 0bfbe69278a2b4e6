"""Describe the labels that the losses of a compiled model take.

These are their shapes, their types and the values that are legal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras

from checkmate.models.arrays import BINARY, CLASS, FLOAT, ONE_HOT, ArraySpec
from checkmate.models.losses import loss_name

_KINDS = {
    "sparse_categorical_crossentropy": CLASS,
    "categorical_generalized_cross_entropy": CLASS,
    "circle": CLASS,
    "categorical_crossentropy": ONE_HOT,
    "categorical_focal_crossentropy": ONE_HOT,
    "categorical_hinge": ONE_HOT,
    "binary_crossentropy": BINARY,
    "binary_focal_crossentropy": BINARY,
    "hinge": BINARY,
    "squared_hinge": BINARY,
    "dice": BINARY,
    "tversky": BINARY,
}


@dataclass(frozen=True)
class Labels:
    """Hold the flat specs, kinds and class counts of one batch's labels.

    ``structure`` is theirs; see ``LoadedModel``.
    """

    specs: tuple[ArraySpec, ...]
    kinds: tuple[str, ...]
    classes: tuple[int, ...]
    structure: Any
    notes: tuple[str, ...] = ()


def describe_labels(model: Any, outputs: Any, batch_size: int) -> Labels:
    """Return the labels of a compiled ``model``.

    Its symbolic ``outputs`` have the structure that its call returns.
    """
    flat = keras.tree.flatten(outputs)
    losses = losses_per_output(model.loss, outputs, getattr(model, "output_names", None) or ())
    specs: list[ArraySpec] = []
    kinds: list[str] = []
    classes: list[int] = []
    places: list[int] = []
    notes: list[str] = []
    for tensor, loss in zip(flat, losses, strict=True):
        if loss is None:
            places.append(-1)
            continue
        places.append(len(specs))
        shape, name = tuple(tensor.shape[1:]), loss_name(loss)
        kind = _kind(loss)
        if kind is None:
            notes.append(f"labels for the loss {name!r} are assumed to be numbers in the shape of the output")
        kinds.append(kind or FLOAT)
        is_class = kind == CLASS
        specs.append(
            ArraySpec((batch_size, *shape[:-1]), "int32")
            if is_class
            else ArraySpec((batch_size, *shape), "float32")
        )
        classes.append(int(shape[-1]) if is_class and shape else 0)
    structure = keras.tree.pack_sequence_as(outputs, places)
    return Labels(tuple(specs), tuple(kinds), tuple(classes), structure, tuple(notes))


def losses_per_output(loss: Any, outputs: Any, output_names: Sequence[str]) -> list[Any]:
    """Return one loss (or None) per flat output, paired as Keras does it.

    Keras pairs them by name, by key, by position, or takes one loss for all.
    """
    paths = [path for path, _ in keras.tree.flatten_with_path(outputs)]
    if isinstance(loss, dict) and not isinstance(outputs, dict):
        return (
            [loss.get(name) for name in output_names]
            if len(output_names) == len(paths)
            else [None] * len(paths)
        )
    if isinstance(loss, dict):
        return [_loss_at(loss, path) for path in paths]
    if isinstance(loss, (list, tuple)):
        flat: list[Any] = keras.tree.flatten(list(loss))
        return flat if len(flat) == len(paths) else (flat + [None] * len(paths))[: len(paths)]
    return [loss] * len(paths)


def _loss_at(loss: Any, path: Sequence[Any]) -> Any:
    for key in path:
        if isinstance(loss, dict):
            loss = loss.get(key)
        elif isinstance(loss, (list, tuple)):
            loss = loss[key] if key < len(loss) else None
    return loss


def _kind(loss: Any) -> str | None:
    """Return which labels ``loss`` takes.

    FLOAT for Keras's regressions, None for a loss that is not Keras's.
    """
    for name in (loss_name(loss), *_keras_ancestors(loss)):
        if name in _KINDS:
            return _KINDS[name]
        if getattr(keras.losses, name, None) is not None:
            return FLOAT
    # A custom loss named after one of Keras's ("sparse_focal", "my_binary_loss") likely takes its labels.
    name = loss_name(loss).lower()
    for part, kind in (("sparse", CLASS), ("categorical", ONE_HOT), ("binary", BINARY)):
        if part in name:
            return kind
    return None


def _keras_ancestors(loss: Any) -> list[str]:
    """Return the function names of the Keras losses that a loss derives from.

    For example, ``SquaredHinge`` has the function name ``squared_hinge``.
    """
    known = {
        each: "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(each))
        for each in dir(keras.losses)
        if each[:1].isupper() and each != "Loss"
    }
    return [known[base.__name__] for base in type(loss).__mro__ if base.__name__ in known]
