"""Do the parts of ``keras.Model.train_step`` one by one, for a replaced step.

``_compile_metrics``, ``_keras_mask`` and ``_loss_tracker`` are private to Keras, and used here only;
``tests/tf/training/test_rematerialize.py`` compares with Keras's own step, so that a release that changes
them is noticed.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from checkmate.backends.tf.models.batch import BatchLayout
from checkmate.backends.tf.models.own_step import has_own_step
from checkmate.catalog.keras_2 import require_keras_3
from checkmate.errors import CheckmateError, TraceError, UsageError
from checkmate.models.losses import require_losses
from checkmate.models.user_code import explained


def require_trainable(model: Any) -> None:
    """Raise an error unless the training step of ``model`` can be replaced. XLA may compile it."""
    if keras.config.backend() != "tensorflow":
        raise CheckmateError(
            f"Keras is set up for the backend {keras.config.backend()!r} here",
            hint="set KERAS_BACKEND=tensorflow",
        )
    require_keras_3(model)
    if not isinstance(model, keras.Model):
        raise UsageError(f"{type(model).__name__} is not a keras.Model", hint=_instead_of(model))
    own = has_own_step(model)
    if not model.compiled or (model.optimizer is None and not own):
        raise UsageError(
            f"the model {model.name!r} is not compiled, so it has no training step",
            hint="call model.compile(optimizer, loss) first",
        )
    if model.run_eagerly:
        raise UsageError(
            f"the model {model.name!r} runs eagerly, and only a traced step can be scheduled",
            hint="compile it with run_eagerly=False",
        )
    if not own:  # a step of its own may mean anything by a loss's name
        require_losses(model.loss)
    require_graphs()


def require_graphs() -> None:
    if tf.config.functions_run_eagerly():
        raise UsageError(
            "TensorFlow runs every function eagerly here, and only a traced step can be scheduled",
            hint="call tf.config.run_functions_eagerly(False) first",
        )


def _instead_of(given: Any) -> str:
    if isinstance(given, str | os.PathLike):
        return "load it first: keras.models.load_model(path)"
    if isinstance(given, type) or not callable(given):
        return "pass the compiled model itself"
    return "a step that is a function is for checkmate.rematerialize_function"


def require_keras_step(model: Any) -> None:
    if has_own_step(model):
        raise TraceError(
            f"the model {model.name!r} has a train_step of its own, so there is no bare step of Keras's",
            hint="call checkmate.rematerialize and train by fit, "
            "or checkmate.rematerialize_function(model.train_step, budget)",
        )


def chosen_by_keras() -> bool:
    """Whether ``jit_compile`` may be Keras's own choice, not the user's.

    ``auto`` means XLA where there is an accelerator, and nothing tells it from the user's choice.
    """
    return any(device.device_type != "CPU" for device in tf.config.list_physical_devices())


def build(model: Any, layout: BatchLayout) -> None:
    """Create missing weights and optimizer slots. A TraceError: there is nothing to train."""
    if not model.built or any(not layer.built for layer in model.layers):

        def call(*tensors: tf.Tensor) -> None:
            model(layout.pack(tensors)[0])

        with explained(str(model.name)):
            tf.function(call, autograph=False).get_concrete_function(*layout.specs)  # as ``fit`` builds it
    if not model.trainable_variables:
        raise TraceError(
            f"{model.name!r} has no trainable weights, so there is no training step",
            hint="set trainable = True and compile the model again",
        )
    if not model.optimizer.built:
        with model.distribute_strategy.scope():
            model.optimizer.build(model.trainable_variables)


def total_loss(model: Any, x: Any, y: Any, predictions: Any, weights: Any) -> tf.Tensor:
    """Return the loss with the model's own additions, for each signature that ``compute_loss`` may have."""
    arguments = {"x": x, "y": y, "y_pred": predictions, "sample_weight": weights}
    if "training" in inspect.signature(model.compute_loss).parameters:
        arguments["training"] = True
    return model.compute_loss(**arguments)


def update_metrics(
    model: Any, x: Any, y: Any, predictions: Any, weights: Any, loss: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Update the running mean of the loss and the metrics, as Keras does; return the results by name."""
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    _build_metrics(model, y, predictions)
    first = next(leaf for leaf in keras.tree.flatten(x) if leaf is not None)
    # A replica's loss is a share of the whole; what is shown is the whole.
    shown = loss * tf.cast(replicas, loss.dtype) if replicas > 1 else loss
    model._loss_tracker.update_state(shown, sample_weight=tf.shape(first)[0])
    results: dict[str, tf.Tensor] = model.compute_metrics(x, y, predictions, sample_weight=weights)
    return results


def logs_of(model: Any, layout: BatchLayout, tensors: Sequence[tf.Tensor], found: Any) -> Any:
    """Update the metrics after a step without them; ``found``: the loss and the predictions that it gave."""
    loss, predictions = found
    x, y, weights = layout.pack(tensors)
    return update_metrics(model, x, y, predictions, weights, loss)


def samples_seen(model: Any) -> int:
    """Return how many samples Keras's own step has taken since the metrics began anew; 0: not known."""
    return int(getattr(getattr(model, "_loss_tracker", None), "count", 0))


def _build_metrics(model: Any, y: Any, predictions: Any) -> None:
    metrics = getattr(model, "_compile_metrics", None)
    usual = getattr(model.compute_metrics, "__func__", None) is keras.Model.compute_metrics
    if usual and metrics is not None and not metrics.built and not tf.distribute.has_strategy():
        with tf.init_scope():
            metrics.build(y, predictions)


def masks_of(predictions: Sequence[tf.Tensor]) -> dict[int, tf.Tensor]:
    found = ((i, getattr(tensor, "_keras_mask", None)) for i, tensor in enumerate(predictions))
    return {i: mask for i, mask in found if mask is not None}


def attach_mask(prediction: tf.Tensor, mask: tf.Tensor) -> None:
    prediction._keras_mask = mask
