"""Cut a functional Keras model into segments of consecutive layers.

Each segment is a model of its own with the same weights. This is what a user of ``tf.recompute_grad`` would
do by hand: choose where to cut, and run the segments one after the other. Where a single tensor passes
between two segments the cut is an articulation point of the layer graph; elsewhere several pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import keras
import tensorflow as tf

from checkmate.errors import CheckmateError
from checkmate.models.keras_graph import calls, inputs_of, output_structure, outputs_of

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]
Cut = Literal["blocks", "sqrt_cuts", "sqrt_layers"]


class NotApplicableError(CheckmateError):
    """A way of training that is compared does not exist for this model."""


@dataclass(frozen=True, eq=False)
class Call:
    """Hold one call of a layer. ``reads`` and ``makes`` are symbolic tensors."""

    operation: Any
    reads: tuple[Any, ...]
    makes: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class LayerSegment:
    """Hold the layers ``first`` to ``last`` as a model.

    It maps the tensors that it reads to those that are read after it.
    """

    model: Any
    reads: tuple[Any, ...]
    makes: tuple[Any, ...]
    first: str
    last: str


def layer_calls(model: Any) -> list[Call]:
    """Return every call of a layer in ``model``, in a valid order.

    ``model`` is functional or sequential. Inputs are left out.

    Raises:
        NotApplicableError: the model is subclassed; only its code knows the order of its layers.
    """
    if not outputs_of(model):
        raise NotApplicableError(
            f"{model.name!r} is a subclassed model: its layers cannot be cut into segments from outside",
            hint="wrap the blocks in its own code",
        )
    return [Call(operation, tuple(reads), tuple(makes)) for operation, reads, makes in calls(model)]


def crossing_tensors(model: Any, made: Sequence[Call], end: int) -> list[Any]:
    """Return the tensors made before call ``end`` that are needed later.

    They are read from there on, or are outputs of the model.
    """
    later = {id(tensor) for call in made[end:] for tensor in call.reads} | {
        id(each) for each in outputs_of(model)
    }
    before = [*inputs_of(model), *(tensor for call in made[:end] for tensor in call.makes)]
    return [tensor for tensor in before if id(tensor) in later]


def cut_points(model: Any, made: Sequence[Call]) -> list[int]:
    """Return the numbers of calls before which a single tensor passes.

    All that follows depends on the past through that tensor alone.
    """
    return [end for end in range(1, len(made)) if len(crossing_tensors(model, made, end)) == 1]


def cuts_for(model: Any, made: Sequence[Call], kind: Cut) -> list[int]:
    """Return where to cut, as numbers of the calls that begin a segment.

    ``blocks``: cut points behind a layer that joins branches or pools. ``sqrt_cuts``, ``sqrt_layers``: every
    √n-th of the n cut points, or of all n calls (Chen et al., arXiv 1604.06174).

    Raises:
        NotApplicableError: there is no such place.
    """
    if kind == "sqrt_layers":
        candidates = list(range(1, len(made)))
    else:
        candidates = cut_points(model, made)
    if kind == "blocks":
        cuts = [end for end in candidates if _ends_block(made[end - 1])]
    else:
        stride = max(1, round(math.sqrt(len(candidates))))
        cuts = candidates[stride - 1 :: stride]
    if not cuts:
        where = "after a layer that joins branches or pools" if kind == "blocks" else "between two layers"
        raise NotApplicableError(
            f"{model.name!r} has no segments: there is no place {where} where a single tensor passes"
        )
    return cuts


def _ends_block(call: Call) -> bool:
    joins = len({id(tensor) for tensor in call.reads}) > 1
    return joins or "Pooling" in type(call.operation).__name__


def segments(model: Any, made: Sequence[Call], cuts: Sequence[int]) -> list[LayerSegment]:
    """Return the calls between the ``cuts`` as models. They share their layers and weights with ``model``."""
    borders = [0, *cuts, len(made)]
    found: list[LayerSegment] = []
    for start, end in pairwise(borders):
        part = made[start:end]
        own = {id(tensor) for call in part for tensor in call.makes}
        needed = {id(tensor): tensor for call in part for tensor in call.reads if id(tensor) not in own}
        passed_on = [tensor for tensor in crossing_tensors(model, made, end) if id(tensor) in own]
        reads = tuple(needed.values())
        first, last = part[0].operation.name, part[-1].operation.name
        inner = keras.Model(list(reads), passed_on, name=f"segment_{len(found)}")
        found.append(LayerSegment(inner, reads, tuple(passed_on), first, last))
    return found


def segmented_forward(
    model: Any, parts: Sequence[LayerSegment], wrap: Wrapper
) -> tuple[Callable[[Any], Any], int]:
    """Return a forward pass with ``wrap`` around segments, and their number.

    It is the forward pass of ``model`` in training. The last segment is not wrapped, because its
    recomputation would begin the moment it ended. A segment that reads no floating-point tensor is not
    wrapped either: it has no gradient to hand back.
    """
    bodies = [_body(part) for part in parts]
    wrapped = [number < len(parts) - 1 and _has_floats(part) for number, part in enumerate(parts)]
    bodies = [wrap(body) if chosen else body for body, chosen in zip(bodies, wrapped, strict=True)]

    def forward(x: Any) -> Any:
        known = {
            id(symbolic): tf.cast(tensor, symbolic.dtype)
            for symbolic, tensor in zip(inputs_of(model), keras.tree.flatten(x), strict=True)
        }
        for part, body in zip(parts, bodies, strict=True):
            results = body(*(known[id(tensor)] for tensor in part.reads))
            known.update((id(tensor), result) for tensor, result in zip(part.makes, results, strict=True))
        outputs = [known[id(tensor)] for tensor in outputs_of(model)]
        return keras.tree.pack_sequence_as(output_structure(model), outputs)

    return forward, sum(wrapped)


def _body(part: LayerSegment) -> Callable[..., list[Any]]:
    def run(*tensors: Any) -> list[Any]:
        return list(keras.tree.flatten(part.model(list(tensors), training=True)))

    return run


def _has_floats(part: LayerSegment) -> bool:
    return any(tf.as_dtype(tensor.dtype).is_floating for tensor in part.reads)
