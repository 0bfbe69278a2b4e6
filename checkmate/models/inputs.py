"""Describe a model's inputs: shapes for one batch, the structure its call takes, legal token ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from checkmate.errors import DynamicShapeError, TraceError, UsageError
from checkmate.models.arrays import ArraySpec, random_input
from checkmate.models.error_text import reason
from checkmate.models.keras_graph import input_structure, inputs_of, producer, readers, walk_layers
from checkmate.request import ModelRequest

_GIVE_A_BATCH = (
    "return the model with a batch for it from a function, (model, batch), and pass file.py:function; "
    "or train by checkmate.rematerialize"
)
_EXAMPLES = {1: (128,), 2: (128, 64), 3: (224, 224, 3), 4: (16, 64, 64, 3)}  # by the rank after the batch


@dataclass(frozen=True)
class Inputs:
    """Hold the flat specs of one batch, and their structure: the index of a spec wherever the call takes a
    tensor. ``vocabularies``: per spec how many token ids are legal (ids from 0), 0 where the values are no
    ids."""

    specs: tuple[ArraySpec, ...]
    structure: Any
    vocabularies: tuple[int, ...]
    notes: tuple[str, ...] = ()

    def random(self, generator: np.random.Generator) -> list[np.ndarray]:
        each = zip(self.specs, self.vocabularies, strict=True)
        return [random_input(generator, spec, size) for spec, size in each]


def resize_inputs(model: Any, shape: tuple[int, ...]) -> tuple[Any, bool]:
    """Return ``model`` with its open inputs at ``shape``, and whether it was rebuilt with the same weights. A
    single input is set to ``shape`` even where the model fixes another size, if its layers and weights allow
    it."""
    inputs = inputs_of(model)
    if not inputs:
        return model, False
    chosen = [tensor for tensor in inputs if None in tensor.shape[1:]] or inputs[:1]
    if all(tuple(tensor.shape[1:]) == shape for tensor in chosen):
        return model, False
    for tensor in chosen:
        own = tuple(tensor.shape[1:])
        fits = len(own) == len(shape) and all(a is None or a == b for a, b in zip(own, shape, strict=True))
        if not fits and (len(inputs) > 1 or len(own) != len(shape)):
            raise UsageError(
                f"the shape {_show(shape)} does not fit the input {producer(tensor).name!r} "
                f"of shape {_show(own)}",
                hint="give the sizes that the model leaves open, with the fixed ones as they are, "
                "in its order",
            )
    fixed = [_fixed(tensor, shape) if any(tensor is each for each in chosen) else tensor for tensor in inputs]
    try:
        rebuilt = keras.models.clone_model(
            model, input_tensors=keras.tree.pack_sequence_as(input_structure(model), fixed)
        )
        rebuilt.set_weights(model.get_weights())
    except (ValueError, TypeError, AttributeError, NotImplementedError) as error:
        raise UsageError(
            f"the model {model.name!r} cannot take the input shape {_show(shape)}: {reason(error)}",
            hint=f"its own shape is {_show(tuple(chosen[0].shape[1:]))}",
        ) from error
    return rebuilt, True


def describe_inputs(model: Any, request: ModelRequest) -> Inputs:
    tensors = inputs_of(model)
    if not tensors:
        return _inputs_of_subclassed(model, request)
    specs = tuple(_spec(tensor, request.batch_size) for tensor in tensors)
    return Inputs(
        specs,
        index_structure(input_structure(model)),
        tuple(_vocabulary(model, tensor, spec) for tensor, spec in zip(tensors, specs, strict=True)),
    )


def index_structure(tensors: Any) -> Any:
    """Return the structure with flat indices as leaves; a list of one is that one, as Keras calls it."""
    flat = keras.tree.flatten(tensors)
    if isinstance(tensors, (list, tuple)) and len(tensors) == 1:
        return index_structure(tensors[0])
    return keras.tree.pack_sequence_as(tensors, list(range(len(flat))))


def build_subclassed(model: Any, inputs: Inputs) -> Any:
    """Call ``model`` symbolically, which creates its weights; return its symbolic outputs, or raise a
    ``TraceError``."""
    tensors = [keras.KerasTensor(spec.shape, spec.dtype) for spec in inputs.specs]
    try:
        return model(keras.tree.map_structure(lambda index: tensors[index], inputs.structure))
    except Exception as error:  # foreign code: a subclassed model's call may raise anything
        given = " and ".join(f"a {spec.dtype} tensor of shape {_show(spec.shape)}" for spec in inputs.specs)
        raise TraceError(
            f"the model {model.name!r} cannot be called with {given}: "
            f"{type(error).__name__}: {reason(error)}",
            hint="call it once on a batch where it is built, or pass input_shape=",
        ) from error


def _fixed(tensor: Any, shape: tuple[int, ...]) -> Any:
    return keras.Input(batch_shape=(tensor.shape[0], *shape), dtype=tensor.dtype, name=producer(tensor).name)


def _spec(tensor: Any, batch_size: int) -> ArraySpec:
    shape = tuple(tensor.shape)
    spec = ArraySpec((batch_size, *shape[1:]), str(tensor.dtype))
    if tensor.dtype == "string":
        raise TraceError(
            f"the input {producer(tensor).name!r} takes text, of which no batch can be made",
            hint=_GIVE_A_BATCH,
        )
    if tensor.sparse or getattr(tensor, "ragged", False):
        raise TraceError(
            f"the input {producer(tensor).name!r} is {'sparse' if tensor.sparse else 'ragged'}, "
            "of which no batch can be made",
            hint=_GIVE_A_BATCH,
        )
    if None in shape[1:]:
        raise DynamicShapeError(
            f"the input {producer(tensor).name!r} has shape {_show(shape)}, "
            "with sizes left open besides the batch",
            hint=_shape_hint(shape[1:], tokens=spec.is_integer),
        )
    if shape[0] is not None and shape[0] != batch_size:
        raise UsageError(
            f"the input {producer(tensor).name!r} has a fixed batch of {shape[0]}, not {batch_size}",
            hint=f"use batch_size={shape[0]}",
        )
    return spec


def _inputs_of_subclassed(model: Any, request: ModelRequest) -> Inputs:
    """Take the requested input shape, else the one that the model was built with. A vector holds token ids if
    the model has an embedding."""
    shapes: Any = None if request.input_shape is None else (None, *request.input_shape)
    if shapes is None:
        shapes = (model.get_build_config() or {}).get("input_shape")
    if shapes is None:
        raise DynamicShapeError(
            f"the model {model.name!r} does not say what input it takes",
            hint=_shape_hint((None,), tokens=True)
            if _embedding_size(model)
            else _shape_hint((None, None, 3), tokens=False),
        )
    found: list[tuple[int | None, ...]] = []

    def number(shape: Sequence[int | None]) -> int:
        found.append(tuple(shape))
        return len(found) - 1

    structure = keras.tree.map_shape_structure(number, shapes)
    largest = _embedding_size(model)
    specs, vocabularies, notes = [], [], []
    for shape in found:
        sizes = tuple(size for size in shape[1:] if size is not None)
        if len(sizes) < len(shape) - 1:
            raise DynamicShapeError(
                f"the model {model.name!r} was built on the shape {_show(shape)}, "
                "with sizes left open besides the batch",
                hint=_shape_hint(shape[1:], tokens=len(shape) == 2 and _embedding_size(model) > 0),
            )
        tokens = largest if len(shape) == 2 else 0
        specs.append(ArraySpec((request.batch_size, *sizes), "int32" if tokens else "float32"))
        vocabularies.append(tokens)
        if tokens:
            notes.append(f"the input of shape {_show(shape)} is assumed to hold token ids below {tokens}")
    return Inputs(tuple(specs), structure, tuple(vocabularies), tuple(notes))


def _shape_hint(shape: Sequence[int | None], *, tokens: bool) -> str:
    """Return a hint whose example fits what is known of ``shape``; ``tokens``: it holds token ids."""
    usual = _EXAMPLES.get(len(shape), (8,) * len(shape))
    example = ",".join(str(size or other) for size, other in zip(shape, usual, strict=True))
    what = "the number of tokens" if tokens and len(shape) == 1 else "the sizes after the batch"
    return f'give {what}, e.g. input_shape="{example}"'


def _vocabulary(model: Any, tensor: Any, spec: ArraySpec) -> int:
    """Return how many token ids are legal in an input; 0 if it holds no ids. That is the size of the smallest
    embedding that reads the input, directly or inside a layer; 2 for other integers."""
    sizes = [size for layer in readers(model, tensor) if (size := _embedding_size(layer))]
    if not sizes and spec.is_integer:
        # Some layer lies between the input and the tables. An id of the smallest table is legal in all.
        sizes = [_embedding_size(model) or 2]
    return min(sizes, default=0)


def _embedding_size(root: Any) -> int:
    layers = walk_layers(root)
    return min(
        (int(each.input_dim) for each in layers if isinstance(each, keras.layers.Embedding)), default=0
    )


def _show(shape: Sequence[int | None]) -> str:
    return ",".join("?" if size is None else str(size) for size in shape)
