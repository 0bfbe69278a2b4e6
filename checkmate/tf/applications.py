"""The architectures of ``keras.applications``, randomly initialised: nothing is downloaded."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import keras

from checkmate.errors import LoadError, UsageError
from checkmate.tf.wording import reason

PREFIX = "keras.applications."


def build_application(name: str, input_shape: tuple[int, ...] | None) -> Any:
    """``keras.applications.<name>(weights=None)``, uncompiled, at ``input_shape`` (None: its own).

    Raises:
        LoadError: there is no such architecture. UsageError: it does not take that input shape.
    """
    known = [each for each in dir(keras.applications) if each[:1].isupper()]
    if name not in known:
        raise LoadError(f"keras.applications has no model {name!r}", hint=_suggest(name, known))
    builder = getattr(keras.applications, name)
    arguments: dict[str, Any] = {"weights": None}
    if input_shape is not None:
        if "input_shape" not in inspect.signature(builder).parameters:
            raise UsageError(f"keras.applications.{name} takes no input shape", hint="leave --input-shape away")
        arguments["input_shape"] = input_shape
    try:
        return builder(**arguments)
    except (ValueError, TypeError) as error:
        if input_shape is None:
            raise LoadError(f"keras.applications.{name} could not be built: {reason(error)}") from error
        shown = ",".join(map(str, input_shape))
        raise UsageError(
            f"keras.applications.{name} cannot be built with --input-shape {shown}: {reason(error)}",
            hint="give height, width and channels, e.g. --input-shape 224,224,3",
        ) from error


def _suggest(name: str, known: Sequence[str]) -> str:
    by_lower = {each.lower(): each for each in known}
    close = get_close_matches(name.rsplit(".", 1)[-1].lower(), by_lower, n=1)
    if close:
        return f"did you mean {PREFIX}{by_lower[close[0]]}?"
    return f"there are: {', '.join(known)}"
