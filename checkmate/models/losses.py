"""Choose the loss and the optimizer of a model, and describe the labels that its losses take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import keras
import numpy as np

from checkmate.errors import UsageError
from checkmate.models.arrays import BINARY, CLASS, FLOAT, ONE_HOT, ArraySpec, random_label
from checkmate.models.keras_graph import outputs_of, producer
from checkmate.request import ModelRequest

_OPTIMIZER = "adam"
_SHORT_LOSSES = ("mse", "mae", "mape", "msle", "bce", "kld")
_BY_ACTIVATION = {"softmax": "categorical_crossentropy", "sigmoid": "binary_crossentropy"}


def compile_defaults(model: Any, request: ModelRequest, outputs: Sequence[Any]) -> list[str]:
    """Compile ``model`` if it is not, or the request overrides its loss or optimizer; return notes."""
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
        notes.append(f"compiled with {own}; {request.loss} replaces it")
    if wanted_optimizer is not None:
        notes.append(f"compiled with {wording(model.optimizer)}; {request.optimizer} replaces it")
    if notes:
        recompile(model, model, loss=wanted_loss, optimizer=wanted_optimizer or model.optimizer)
    return notes


def recompile(target: Any, source: Any, *, loss: Any = None, optimizer: Any = None) -> None:
    """Compile ``target`` as ``source`` is, without metrics, or with another loss or optimizer. A new
    optimizer has no state."""
    target.compile(
        optimizer=optimizer or type(source.optimizer).from_config(source.optimizer.get_config()),
        loss=source.loss if loss is None else loss,
        # Weights belong to the losses they were given with.
        loss_weights=source.get_compile_config().get("loss_weights") if loss is None else None,
        jit_compile=bool(source.jit_compile),
    )


def copy_optimizer_state(target: Any, source: Any) -> None:
    """Give the optimizer of ``target``, whose weights have the same shapes, the state of ``source``'s."""
    if not source.optimizer.built:
        return
    target.optimizer.build(target.trainable_variables)
    for new, old in zip(target.optimizer.variables, source.optimizer.variables, strict=True):
        new.assign(old)


def default_losses(model: Any, outputs: Sequence[Any]) -> Any:
    """Return each output's default: cross-entropy after softmax or sigmoid, else mean squared error."""
    if outputs_of(model):
        last = [producer(tensor) for tensor in outputs]
    else:
        # A subclassed model does not say what makes its output. For one output, guess the last layer.
        last = [model.layers[-1] if model.layers and len(outputs) == 1 else None] * len(outputs)
    losses = [_BY_ACTIVATION.get(_activation(operation), "mean_squared_error") for operation in last]
    return losses[0] if len(losses) == 1 else losses


def wording(thing: Any) -> str:
    if isinstance(thing, dict):
        return ", ".join(f"{key}: {wording(value)}" for key, value in thing.items())
    if isinstance(thing, (list, tuple)):
        return ", ".join(wording(each) for each in thing)
    if isinstance(thing, keras.optimizers.Optimizer):
        return type(getattr(thing, "inner_optimizer", thing)).__name__
    return "none" if thing is None else loss_name(thing).replace("_", " ")


def loss_name(loss: Any) -> str:
    """Return the full name, as ``mean_squared_error``, of a loss: a name, a function or an object."""
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
    if isinstance(operation, keras.Model) and operation.layers:
        return _activation(operation.layers[-1])
    activation = getattr(operation, "activation", None)
    return str(getattr(activation, "__name__", "") or type(operation).__name__).lower()


def require_losses(losses: Any, *, option: str = "{}") -> None:
    """Raise unless Keras knows the ``losses`` that are given by name; ``option``: how to write a name."""
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
    require_losses(losses, option='loss="{}"')
    if len(losses) == 1:
        return losses[0]
    if len(losses) != count:
        raise UsageError(
            f"{len(losses)} losses are named, and the model has {count} output{'s' if count != 1 else ''}",
            hint="give one for all, or one per output, separated by commas",
        )
    return losses


def _requested_optimizer(name: str) -> Any:
    try:
        return keras.optimizers.get(name)
    except (ValueError, TypeError) as error:
        known = [each.lower() for each in _names(keras.optimizers, lower=False)]
        raise UsageError(
            f"Keras has no optimizer {name!r}", hint=_suggest(name, known, 'optimizer="{}"')
        ) from error


def _names(module: Any, *, lower: bool) -> list[str]:
    not_losses = {"get", "serialize", "deserialize", "legacy", "schedules"}
    names = [each for each in dir(module) if not each.startswith("_") and each not in not_losses]
    return [each for each in names if each.islower() == lower]


def _suggest(name: str, known: Sequence[str], option: str) -> str:
    close = get_close_matches(name.lower(), known, n=1)
    return f"did you mean {option.format(close[0])}?" if close else f"there are: {', '.join(known)}"


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
    specs: tuple[ArraySpec, ...]
    kinds: tuple[str, ...]
    classes: tuple[int, ...]
    structure: Any
    notes: tuple[str, ...] = ()

    def random(self, generator: np.random.Generator) -> list[np.ndarray]:
        each = zip(self.specs, self.kinds, self.classes, strict=True)
        return [random_label(generator, spec.shape, kind, classes) for spec, kind, classes in each]


def describe_labels(model: Any, outputs: Any, batch_size: int) -> Labels:
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
    """Return a loss (or None) per flat output: by name, key or position, or one for all, as Keras does."""
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
        return (flat + [None] * len(paths))[: len(paths)]
    return [loss] * len(paths)


def _loss_at(loss: Any, path: Sequence[Any]) -> Any:
    for key in path:
        if isinstance(loss, dict):
            loss = loss.get(key)
        elif isinstance(loss, (list, tuple)):
            loss = loss[key] if key < len(loss) else None
    return loss


def _kind(loss: Any) -> str | None:
    """Return which labels ``loss`` takes: FLOAT for Keras's regressions, None if it is not Keras's."""
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
    """Return the Keras losses that a loss derives from, named as functions: ``squared_hinge``."""
    known = {
        each: "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(each))
        for each in dir(keras.losses)
        if each[:1].isupper() and each != "Loss"
    }
    return [known[base.__name__] for base in type(loss).__mro__ if base.__name__ in known]
