"""Flatten a batch, or a step's arguments, into a list of tensors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from checkmate.errors import DynamicShapeError, TraceError

Key = tuple[tuple[tuple[Any, ...], tuple[int, ...], str], ...]


@dataclass(frozen=True)
class Constant:
    """An argument that is no tensor: a number, a text, an object."""

    value: Any


@dataclass(frozen=True, eq=False)
class BatchLayout:
    """``structure``: such as (x, y, sample weights), with the number of a part at every leaf, -1 where there
    is None. ``parts``: a tensor each; a sparse or a ragged one is several flat tensors, of open length.
    ``key``: two batches with equal keys run the same traced step. ``problem``: why no step can be planned for
    it."""

    structure: Any
    parts: tuple[tf.TypeSpec, ...]
    key: Key
    problem: TraceError | None = None

    @property
    def specs(self) -> tuple[tf.TensorSpec, ...]:
        """Of the flat tensors."""
        return tuple(tf.nest.flatten(self.parts, expand_composites=True))

    def require_plannable(self) -> None:
        if self.problem is not None:
            # A new one each time: its frames would keep the batch.
            raise type(self.problem)(str(self.problem), hint=self.problem.hint)

    @property
    def batch_size(self) -> int:
        """The first dimension of the first tensor; 1 where it has none."""
        first = (part.shape[0] for part in self.parts if part.shape.rank)
        return next((size for size in first if size is not None), 1)

    def pack(self, tensors: Sequence[tf.Tensor]) -> Any:
        return self.place(tf.nest.pack_sequence_as(self.parts, list(tensors), expand_composites=True))

    def place(self, parts: Sequence[Any]) -> Any:
        """Return the structure with one of ``parts`` in place of each number."""

        def leaf(found: Any) -> Any:
            if isinstance(found, Constant):
                return found.value
            return None if found < 0 else parts[found]

        return keras.tree.map_structure(leaf, self.structure)

    def names(self, name: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> tuple[str, ...]:
        """Return names of the flat tensors. ``name``: of the path of a part."""
        found: dict[int, str] = {}
        for path, leaf in keras.tree.flatten_with_path(self.structure):
            if not isinstance(leaf, Constant) and leaf >= 0:
                said = re.sub(r"\W", "_", "_".join(map(str, name(path))))
                found[leaf] = said if said[:1].isalpha() else f"input_{said or leaf}"
        flat: list[str] = []
        for part, each in zip(self.parts, distinct_names(found), strict=True):
            count = len(tf.nest.flatten(part, expand_composites=True))
            flat += [each] if count == 1 else [f"{each}_{number}" for number in range(count)]
        return distinct_names(dict(enumerate(flat)))

    @property
    def random(self) -> tuple[bool, ...]:
        """Whether random numbers may stand for each flat tensor: it is no text, and no part of a sparse or
        ragged tensor.
        """
        return tuple(
            isinstance(part, tf.TensorSpec) and part.dtype != tf.string
            for part in self.parts
            for _ in tf.nest.flatten(part, expand_composites=True)
        )

    def describe(self) -> str:
        """Return the layout in words: ``batch of 8``; with token ids ``batch of 8, length 128``."""
        said = f"batch of {self.batch_size}"
        first = next((part for part in self.parts if part.shape.rank), None)
        if first is None or not first.shape.is_fully_defined():
            return said
        if first.shape.rank == 2 and first.dtype.is_integer:
            return f"{said}, length {first.shape[1]}"
        return f"{said} × {first.shape[1]} × {first.shape[2]}" if first.shape.rank == 3 else said


def distinct_names(wanted: Mapping[int, str]) -> tuple[str, ...]:
    """Return the names that are ``wanted`` of tensors, by their numbers, made different by a number."""
    found: dict[int, str] = {}
    for number, name in wanted.items():
        found[number] = f"{name}_{number}" if name in found.values() else name
    return tuple(found[number] for number in sorted(found))


def flatten(data: Any) -> tuple[BatchLayout, list[tf.Tensor]]:
    """Return the layout and the tensors of ``data``, a batch as Keras hands it to ``train_step``; a bad one's
    layout says why."""
    try:
        parts = keras.utils.unpack_x_y_sample_weight(data)
    except ValueError:
        layout, tensors = flatten_data(data)
        problem = TraceError(
            f"a batch of {len(data)} parts is not what fit takes",
            hint="give it as (x, y) or (x, y, sample_weight)",
        )
        return replace(layout, problem=problem), tensors
    return flatten_data(parts)


def require_examples(layout: BatchLayout) -> None:
    if not layout.batch_size:
        raise TraceError("the batch has no examples", hint="give one with as many as fit will have")


def flatten_data(data: Any) -> tuple[BatchLayout, list[tf.Tensor]]:
    """Return as ``flatten`` the layout of ``data`` as it is, for a ``train_step`` of a model's own."""
    layout, tensors = _flattened(data, lambda leaf: True)
    if tensors or layout.problem is not None:
        return layout, tensors
    problem = TraceError("the batch holds no tensors", hint="give it as (x, y) or (x, y, sample_weight)")
    return replace(layout, problem=problem), tensors


def flatten_arguments(data: Any) -> tuple[BatchLayout, list[tf.Tensor]]:
    """Return as ``flatten`` the layout of a function's arguments, of which tensors and arrays are tensors."""
    return _flattened(data, lambda leaf: isinstance(leaf, (np.ndarray, np.generic)) or _is_tensor(leaf))


def _is_tensor(leaf: Any) -> bool:
    # A variable is no tensor here: the function may write to it.
    return tf.is_tensor(leaf) and not isinstance(leaf, (tf.Variable, keras.Variable))


def _flattened(data: Any, counts: Callable[[Any], bool]) -> tuple[BatchLayout, list[tf.Tensor]]:
    values: list[Any] = []
    key: list[tuple[tuple[Any, ...], tuple[int, ...], str]] = []
    problems: list[TraceError] = []

    def number(leaf: Any) -> Any:
        if leaf is None:
            return -1
        found = _tensor(leaf) if counts(leaf) else None
        problem = _problem_of(leaf, found) if counts(leaf) else _problem_of_constant(leaf)
        if problem is not None:
            problems.append(problem)
        if found is None:
            return Constant(leaf)
        values.append(found)
        return len(values) - 1

    structure = keras.tree.map_structure(number, data)
    parts = tuple(map(tf.type_spec_from_value, values))
    for path, found in keras.tree.flatten_with_path(structure):
        if isinstance(found, Constant):
            key.append(((*path, type(found.value), _identity(found.value)), (), "constant"))
        elif found >= 0:
            part = parts[found]
            kind = part.dtype.name if isinstance(part, tf.TensorSpec) else str(part)
            key.append((tuple(path), () if part.shape.rank is None else tuple(part.shape), kind))
    tensors = tf.nest.flatten(values, expand_composites=True)
    return BatchLayout(structure, parts, tuple(key), problems[0] if problems else None), tensors


def _identity(value: Any) -> Any:
    """Return a key to find a constant by; None where it has none."""
    try:
        hash(value)
    except TypeError:
        return id(value) if isinstance(value, (tf.Variable, keras.Variable)) else None
    return value


def _problem_of_constant(value: Any) -> TraceError | None:
    if value is None or _identity(value) is not None:
        return None
    return TraceError(
        f"an argument of the step is a {type(value).__name__}, which is neither a tensor nor a constant",
        hint="hand tensors, arrays, numbers or texts to the step, in lists, tuples or dictionaries",
    )


def _tensor(leaf: Any) -> Any:
    if isinstance(leaf, (tf.SparseTensor, tf.RaggedTensor)):
        return leaf
    try:
        return tf.convert_to_tensor(leaf)
    except (TypeError, ValueError):
        return None


def _problem_of(leaf: Any, tensor: Any) -> TraceError | None:
    if tensor is None:
        name = type(leaf).__name__
        return TraceError(
            f"the batch holds {'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}, which is no tensor",
            hint="give one batch of tensors or arrays, such as next(iter(dataset))",
        )
    if isinstance(tensor, tf.Tensor) and not tensor.shape.is_fully_defined():
        return DynamicShapeError(
            f"the batch holds a tensor of shape {tensor.shape}, so its size is not known before it runs",
            hint="call the step outside of other tf.functions, or give it tensors of fixed shape",
        )
    return None
