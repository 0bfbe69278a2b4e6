"""Build what a model's name stands for, under a dtype policy; nothing is downloaded."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras

from checkmate.catalog.model_names import require_application
from checkmate.errors import LoadError, UsageError
from checkmate.models.error_text import reason


def build_application(name: str, input_shape: tuple[int, ...] | None) -> Any:
    """Return ``keras.applications.<name>(weights=None)``, uncompiled."""
    known = [each for each in dir(keras.applications) if each[:1].isupper()]
    require_application(name, known)
    builder = getattr(keras.applications, name)
    arguments: dict[str, Any] = {"weights": None}
    if input_shape is not None:
        if "input_shape" not in inspect.signature(builder).parameters:
            raise UsageError(f"keras.applications.{name} takes no input shape", hint="leave it out")
        arguments["input_shape"] = input_shape
    try:
        return builder(**arguments)
    except (ValueError, TypeError) as error:
        if input_shape is None:
            raise LoadError(f"keras.applications.{name} could not be built: {reason(error)}") from error
        shown = ",".join(map(str, input_shape))
        raise UsageError(
            f"keras.applications.{name} cannot be built on {shown}: {reason(error)}",
            hint='give height, width and channels, e.g. input_shape="224,224,3"',
        ) from error


@contextmanager
def dtype_policy(name: str | None) -> Iterator[None]:
    """Build layers under the policy ``name`` (None: as it is), then restore the process's own."""
    before = keras.config.dtype_policy()
    if name is not None:
        try:
            keras.config.set_dtype_policy(name)
        except (ValueError, TypeError) as error:
            raise UsageError(
                f"{name!r} is not a dtype policy of Keras", hint="use mixed_float16 or mixed_bfloat16"
            ) from error
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
