"""Flatten a batch into a list of tensors.

``fit`` and custom loops give batches as (x, y, sample weights) in any structure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from checkmate.errors import DynamicShapeError, TraceError

Key = tuple[tuple[tuple[Any, ...], tuple[int, ...], str], ...]


@dataclass(frozen=True, eq=False)
class BatchLayout:
    """Hold the structure, shapes and dtypes of a batch.

    ``structure``: (x, y, sample weights) with the number of a tensor at every leaf, -1 where there is None.
    ``specs``: shape and dtype per tensor. ``key``: the same in a form that can be looked up; two batches with
    equal keys run the same traced step.
    """

    structure: Any
    specs: tuple[tf.TensorSpec, ...]
    key: Key

    @property
    def batch_size(self) -> int:
        """Return the examples per batch.

        It is the first dimension of the first tensor, 1 where it has none.
        """
        shape = self.specs[0].shape
        return int(shape[0]) if shape.rank else 1

    def pack(self, tensors: Sequence[tf.Tensor]) -> tuple[Any, Any, Any]:
        """Return (x, y, sample weights) in their structures."""
        x, y, weights = keras.tree.map_structure(lambda i: None if i < 0 else tensors[i], self.structure)
        return x, y, weights

    def describe(self) -> str:
        """Return the layout in words, such as ``batch of 8``."""
        return f"batch of {self.batch_size}"


def flatten(data: Any) -> tuple[BatchLayout, list[tf.Tensor]]:
    """Return the layout and the tensors of ``data``.

    ``data`` is a batch as Keras hands it to ``train_step``. Arrays become tensors.

    Raises:
        DynamicShapeError: the shape of a tensor is not known.
        TraceError: the batch holds text, or a sparse or ragged tensor.
    """
    parts = keras.utils.unpack_x_y_sample_weight(data)
    tensors: list[tf.Tensor] = []
    key: list[tuple[tuple[Any, ...], tuple[int, ...], str]] = []

    def number(leaf: Any) -> int:
        if leaf is None:
            return -1
        tensors.append(_tensor(leaf))
        return len(tensors) - 1

    structure = keras.tree.map_structure(number, parts)
    for path, index in keras.tree.flatten_with_path(structure):
        if index >= 0:
            key.append((tuple(path), tuple(tensors[index].shape), tensors[index].dtype.name))
    if not tensors:
        raise TraceError("the batch holds no tensors", hint="give it as (x, y) or (x, y, sample_weight)")
    specs = tuple(tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in tensors)
    return BatchLayout(structure, specs, tuple(key)), tensors


def _tensor(leaf: Any) -> tf.Tensor:
    if isinstance(leaf, (tf.SparseTensor, tf.RaggedTensor)):
        kind = "sparse" if isinstance(leaf, tf.SparseTensor) else "ragged"
        raise TraceError(f"the batch holds a {kind} tensor, whose size is not known", hint="make it dense")
    tensor = tf.convert_to_tensor(leaf)
    if tensor.dtype == tf.string:
        raise TraceError("the batch holds text, which has no size to plan with", hint="feed token ids")
    if not tensor.shape.is_fully_defined():
        raise DynamicShapeError(
            f"the batch holds a tensor of shape {tensor.shape}, so its size is not known before it runs",
            hint="call the step outside of other tf.functions, or give it tensors of fixed shape",
        )
    return tensor
