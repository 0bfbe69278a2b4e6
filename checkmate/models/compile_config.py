"""Compile a loaded model by the training configuration saved with it.

It is read part by part, because Keras gives up on the whole file if one part is unknown here. A training step
needs the loss, its weights and the optimizer. Metrics are not part of it and are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras

from checkmate.errors import ModelReadError
from checkmate.request import ModelRequest

_LAMBDA = "__lambda__"
_DESERIALIZE_ERRORS = (ValueError, TypeError, LookupError, AttributeError, ImportError, RecursionError)


def compile_as_saved(model: Any, config: Any, path: Path, request: ModelRequest) -> list[str]:
    """Compile ``model`` by ``config`` as Keras wrote it; return notes.

    ``config``: None if the model was saved uncompiled. If the file's own loss or optimizer is unknown here,
    the request's takes its place.

    Raises:
        ModelReadError: the loss or optimizer is unknown, and the request names none.
    """
    if not isinstance(config, Mapping) or not config:
        return []
    notes: list[str] = []
    optimizer_config = config.get("optimizer", config.get("optimizer_config"))
    optimizer = _part("optimizer", optimizer_config, request.optimizer, _optimizer, path, notes)
    loss = _part("loss", config.get("loss"), request.loss, _loss, path, notes)
    model.compile(
        optimizer=keras.optimizers.get(optimizer or "rmsprop"),
        loss=loss,
        loss_weights=config.get("loss_weights") if loss is not request.loss else None,
        jit_compile=bool(config.get("jit_compile", False)),
    )
    return notes


def _part(
    what: str, config: Any, wanted: str | None, read: Callable[[Any], Any], path: Path, notes: list[str]
) -> Any:
    try:
        return read(config)
    except _DESERIALIZE_ERRORS as error:
        name = _name(config)
        if wanted is None:
            raise ModelReadError(
                f"{path} is compiled with the {what} {name!r}, which is not part of Keras, "
                "and its code is not in the file",
                hint=f"use another one with --{what} NAME, or pass a file.py:function that defines it",
            ) from error
        notes.append(
            f"the file's own {what} {name!r} is not part of Keras; --{what} {wanted} is used instead"
        )
        return wanted


def _optimizer(config: Any) -> Any:
    return keras.optimizers.get(config) if config is not None else None


def _loss(config: Any) -> Any:
    """Return a loss, or a structure of losses, from a saved configuration.

    ``.keras`` and ``.h5`` files describe losses in different ways; both are read.
    """
    if isinstance(config, str):
        keras.losses.get(config)  # raises where it is unknown
        return config
    if isinstance(config, Mapping):
        if config.get("class_name") == "function":
            return _loss(config["config"])
        if config.get("class_name") == _LAMBDA:  # Keras takes it for a loss of that name
            raise ValueError("the code of a lambda")
        if "class_name" in config and "config" in config:
            return keras.losses.deserialize(dict(config))
        return {key: _loss(value) for key, value in config.items()}
    if isinstance(config, (list, tuple)):
        return [_loss(value) for value in config]
    return None


def _name(config: Any) -> str:
    """Return the name of the unknown part, as a user would say it.

    Of several losses it is the first unknown one.
    """
    if isinstance(config, Mapping):
        if config.get("class_name") == "function":
            return str(config.get("config"))
        if "class_name" in config:
            return str(config["class_name"])
        config = list(config.values())
    if isinstance(config, (list, tuple)):
        return next((_name(part) for part in config if not _known(part)), "")
    return str(config)


def _known(config: Any) -> bool:
    try:
        _loss(config)
    except _DESERIALIZE_ERRORS:
        return False
    return True
