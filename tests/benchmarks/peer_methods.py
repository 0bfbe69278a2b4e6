"""Keras's and TensorFlow's own ways to train in less memory, and a training step under one of them.

Everything else is as in the plain step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from checkmate.backends.tf.models.load import load_model
from checkmate.backends.tf.models.model import LoadedModel
from checkmate.backends.tf.trace.trace import train_on
from checkmate.models.keras_graph import walk_layers
from checkmate.request import ModelRequest
from tests.benchmarks.segments import (
    Cut,
    NotApplicableError,
    cuts_for,
    layer_calls,
    segmented_forward,
    segments,
)


@dataclass(frozen=True)
class PeerMethod:
    """One way to ask for recomputation.

    ``mode``: of ``keras.RematScope``. ``wrap`` and ``cut``: what is put around which segments. A method with
    neither is the plain step.
    """

    name: str
    label: str
    mode: str | None = None
    wrap: str | None = None
    cut: Cut | None = None


PLAIN = PeerMethod("plain", "plain")
PEERS = (
    PeerMethod("scope-full", "RematScope full", mode="full"),
    PeerMethod("scope-activations", "RematScope activations", mode="activations"),
    PeerMethod("scope-larger-than", "RematScope larger_than", mode="larger_than"),
    # Every convolution, or every dense layer where there is none.
    PeerMethod("scope-layers", "RematScope list_of_layers", mode="list_of_layers"),
    # A block ends where one tensor passes and branches join or features are pooled.
    PeerMethod("remat-blocks", "keras.remat, blocks", wrap="keras.remat", cut="blocks"),
    PeerMethod("recompute-blocks", "recompute_grad, blocks", wrap="tf.recompute_grad", cut="blocks"),
    PeerMethod(
        "recompute-sqrt-cuts", "recompute_grad, √n cut points", wrap="tf.recompute_grad", cut="sqrt_cuts"
    ),
    PeerMethod(
        "recompute-sqrt-layers", "recompute_grad, √n layers", wrap="tf.recompute_grad", cut="sqrt_layers"
    ),
)


def find_method(name: str) -> PeerMethod:
    """Return the method called ``name``."""
    return next(method for method in (PLAIN, *PEERS) if method.name == name)


_WRAPPERS = {"keras.remat": keras.remat, "tf.recompute_grad": tf.recompute_grad}


@dataclass(frozen=True, eq=False)
class BuiltStep:
    """Hold a training step built under a method.

    ``function``: concrete, from flat inputs and labels to (loss, predictions, gradients). ``note``: what was
    done, in words.
    """

    loaded: LoadedModel
    function: Any
    note: str

    @property
    def variables(self) -> list[Any]:
        """Return the variables of the model and of the optimizer.

        Every build of the model has them in the same order.
        """
        return [*self.loaded.model.variables, *self.loaded.model.optimizer.variables]


@dataclass(frozen=True, eq=False)
class _Segmented:
    """Call ``forward`` in place of the model, for ``train_on``.

    ``train_on`` is that of ``checkmate.backends.tf.trace.trace``.
    """

    model: Any
    forward: Callable[[Any], Any]

    def __call__(self, x: Any, training: bool) -> Any:
        return self.forward(x)

    @property
    def optimizer(self) -> Any:
        return self.model.optimizer

    @property
    def trainable_variables(self) -> Any:
        return self.model.trainable_variables


def build(
    request: ModelRequest, method: PeerMethod, layers: Sequence[str] = (), *, with_gradients: bool = False
) -> BuiltStep:
    """Load the model and trace its step under ``method``.

    ``layers``: for ``list_of_layers``, the names that ``recomputable_layers`` gives in a process that built
    the model once.

    Raises:
        NotApplicableError: the method does not exist for this model. Keras and TensorFlow may raise any other
            error.
    """
    loaded = _load(request, method, layers)
    if loaded.own is not None:
        raise NotApplicableError(
            f"{request.model} has a step of its own, and the peers' methods are for Keras's step",
            hint="compare a model that leaves train_step to Keras",
        )
    model, note = loaded.model, ""
    if method.mode == "list_of_layers":
        note = f"{len(layers)} layers"
    forward = None
    if method.wrap is not None and method.cut is not None:
        made = layer_calls(model)
        parts = segments(model, made, cuts_for(model, made, method.cut))
        forward, wrapped = segmented_forward(model, parts, _WRAPPERS[method.wrap])
        most = max(len(part.reads) for part in parts)
        note = f"{wrapped} of {len(parts)} segments recomputed" + (
            f", up to {most} tensors passed" if most > 1 else ""
        )
    return BuiltStep(loaded, _traced(loaded, forward, with_gradients), note)


def _load(request: ModelRequest, method: PeerMethod, layers: Sequence[str]) -> LoadedModel:
    if method.mode is None:
        return load_model(request)
    with keras.RematScope(mode=method.mode, layer_names=list(layers)):
        return load_model(request)


def _traced(loaded: LoadedModel, forward: Callable[[Any], Any] | None, with_gradients: bool) -> Any:
    model = loaded.model if forward is None else _Segmented(loaded.model, forward)

    def step(*tensors: tf.Tensor) -> Any:
        x, y = loaded.pack(tensors)

        def loss_of(predictions: Any) -> tf.Tensor:
            return loaded.model.compute_loss(x=x, y=y, y_pred=predictions, training=True)

        loss, predictions, gradients = train_on(model, x, loss_of, lambda name: None)
        # The plain step of this project returns its predictions too, so they live to the end of both steps.
        kept = tuple(map(tuple, gradients)) if with_gradients else ()
        return loss, tuple(tf.nest.flatten(predictions)), kept

    return tf.function(step, autograph=False).get_concrete_function(*loaded.specs)


def recomputable_layers(model: Any) -> list[str]:
    """Return the names of the convolutions of ``model``, at any depth.

    If it has none they are the names of its dense layers.
    """
    layers = list(walk_layers(model))
    convolutions = [layer.name for layer in layers if "Conv" in type(layer).__name__]
    dense = (keras.layers.Dense, keras.layers.EinsumDense)
    return convolutions or [layer.name for layer in layers if isinstance(layer, dense)]
