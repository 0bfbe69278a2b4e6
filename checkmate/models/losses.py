"""Choose the loss and the optimizer of a model.

A model that does not name them gets defaults; a request may change them.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import keras

from checkmate.errors import UsageError
from checkmate.models.keras_graph import outputs_of, producer
from checkmate.request import ModelRequest

_OPTIMIZER = "adam"
_SHORT_LOSSES = ("mse", "mae", "mape", "msle", "bce", "kld")
_BY_ACTIVATION = {"softmax": "categorical_crossentropy", "sigmoid": "binary_crossentropy"}


def compile_defaults(model: Any, request: ModelRequest, outputs: Sequence[Any]) -> list[str]:
    """Compile ``model`` if it must be; return what was done, in words.

    It must be if it is not compiled, or if the request overrides its loss or optimizer. ``outputs``: the
    model's symbolic outputs, flat.

    Raises:
        UsageError: Keras does not know the loss or the optimizer, or the number of losses does not match that
            of the outputs.
    """
    wanted_loss = None if request.loss is None else _requested_losses(request.loss, len(outputs))
    wanted_optimizer = None if request.optimizer is None else _requested_optimizer(request.optimizer)
    if not getattr(model, "compiled", False):
        loss = default_losses(model, outputs) if wanted_loss is None else wanted_loss
        model.compile(optimizer=wanted_optimizer or _OPTIMIZER, loss=loss, jit_compile=False)
        return [f"not compiled: {wording(loss)} and {wording(model.optimizer)} are used"]
    if wanted_loss is None and type(model).train_step is keras.Model.train_step:
        require_losses(model.loss)
    notes = []
    if wanted_loss is not None and model.loss != wanted_loss:
        own = "no loss" if model.loss is None else wording(model.loss)
        notes.append(f"compiled with {own}; --loss {request.loss} replaces it")
    if wanted_optimizer is not None:
        notes.append(f"compiled with {wording(model.optimizer)}; --optimizer {request.optimizer} replaces it")
    if notes:
        recompile(model, model, loss=wanted_loss, optimizer=wanted_optimizer or model.optimizer)
    return notes


def recompile(target: Any, source: Any, *, loss: Any = None, optimizer: Any = None) -> None:
    """Compile ``target`` as ``source`` is, or with another loss or optimizer.

    Metrics are left out: they are not part of the step. A new optimizer has the settings of the old one, but
    not its state; see ``copy_optimizer_state``.
    """
    target.compile(
        optimizer=optimizer or type(source.optimizer).from_config(source.optimizer.get_config()),
        loss=source.loss if loss is None else loss,
        # Weights belong to the losses they were given with.
        loss_weights=source.get_compile_config().get("loss_weights") if loss is None else None,
        jit_compile=bool(source.jit_compile),
    )


def copy_optimizer_state(target: Any, source: Any) -> None:
    """Give the optimizer of ``target`` the state of ``source``'s.

    Its weights have the same shapes in the same order.
    """
    if not source.optimizer.built:
        return
    target.optimizer.build(target.trainable_variables)
    for new, old in zip(target.optimizer.variables, source.optimizer.variables, strict=True):
        new.assign(old)


def default_losses(model: Any, outputs: Sequence[Any]) -> Any:
    """Return the default loss of each output.

    It is a cross-entropy after softmax or sigmoid, else the mean squared error.
    """
    if outputs_of(model):
        last = [producer(tensor) for tensor in outputs]
    else:
        # A subclassed model does not say what makes its output. For one output, guess the last layer.
        last = [model.layers[-1] if model.layers and len(outputs) == 1 else None] * len(outputs)
    losses = [_BY_ACTIVATION.get(_activation(operation), "mean_squared_error") for operation in last]
    return losses[0] if len(losses) == 1 else losses


def wording(thing: Any) -> str:
    """Return losses or optimizers in words, for a reader."""
    if isinstance(thing, dict):
        return ", ".join(f"{key}: {wording(value)}" for key, value in thing.items())
    if isinstance(thing, (list, tuple)):
        return ", ".join(wording(each) for each in thing)
    if isinstance(thing, keras.optimizers.Optimizer):
        return type(getattr(thing, "inner_optimizer", thing)).__name__
    return "none" if thing is None else loss_name(thing).replace("_", " ")


def loss_name(loss: Any) -> str:
    """Return the full name of a loss, such as ``mean_squared_error``.

    ``loss`` may be that string, its short form, the function or the object.
    """
    if isinstance(loss, str):
        try:
            loss = keras.losses.get(loss)
        except ValueError:
            return str(loss)
    name = getattr(loss, "__name__", None)
    if name is None:
        name = getattr(getattr(loss, "fn", None), "__name__", None) or getattr(loss, "name", None)
    return str(name or type(loss).__name__)


def _activation(operation: Any) -> str:
    """Return the activation of an operation, such as ``softmax``.

    It may be written as a layer's activation, as a layer, or as an op of ``keras.ops``.
    """
    if isinstance(operation, keras.Model) and operation.layers:
        return _activation(operation.layers[-1])
    activation = getattr(operation, "activation", None)
    return str(getattr(activation, "__name__", "") or type(operation).__name__).lower()


def require_losses(losses: Any, *, option: str = "") -> None:
    """Raise unless Keras knows the ``losses`` that are given by name.

    ``losses`` are as ``compile`` takes them. ``option`` is what a name is written after.

    Raises:
        UsageError: Keras does not know one; the hint has one that is meant, or all.
    """
    for name in keras.tree.flatten(losses):
        if not isinstance(name, str):
            continue
        try:
            known = keras.losses.get(name)
        except ValueError:
            known = None
        if known is None:
            known_names = [*_SHORT_LOSSES, *_names(keras.losses, lower=True)]
            raise UsageError(f"Keras has no loss {name!r}", hint=_suggest(name, known_names, option))


def _requested_losses(names: str, count: int) -> Any:
    losses = [name.strip() for name in names.split(",")]
    require_losses(losses, option="--loss ")
    if len(losses) == 1:
        return losses[0]
    if len(losses) != count:
        raise UsageError(
            f"--loss names {len(losses)} losses and the model has {count} output{'s' if count != 1 else ''}",
            hint="give one for all, or one per output, separated by commas",
        )
    return losses


def _requested_optimizer(name: str) -> Any:
    try:
        return keras.optimizers.get(name)
    except (ValueError, TypeError) as error:
        known = [each.lower() for each in _names(keras.optimizers, lower=False)]
        raise UsageError(
            f"Keras has no optimizer {name!r}", hint=_suggest(name, known, "--optimizer ")
        ) from error


def _names(module: Any, *, lower: bool) -> list[str]:
    not_losses = {"get", "serialize", "deserialize", "legacy", "schedules"}
    names = [each for each in dir(module) if not each.startswith("_") and each not in not_losses]
    return [each for each in names if each.islower() == lower]


def _suggest(name: str, known: Sequence[str], option: str) -> str:
    close = get_close_matches(name.lower(), known, n=1)
    return f"did you mean {option}{close[0]}?" if close else f"there are: {', '.join(known)}"
