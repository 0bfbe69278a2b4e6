"""Build the architectures of ``keras.applications`` with random weights.

Nothing is downloaded.
"""

from __future__ import annotations

import inspect
from typing import Any

import keras

from checkmate.catalog.model_names import APPLICATIONS, require_application
from checkmate.errors import LoadError, UsageError
from checkmate.models.error_text import reason

PREFIX = APPLICATIONS


def build_application(name: str, input_shape: tuple[int, ...] | None) -> Any:
    """Return ``keras.applications.<name>(weights=None)``, uncompiled.

    ``input_shape``: None: the architecture's own.

    Raises:
        LoadError: there is no such architecture.
        UsageError: it does not take that input shape.
    """
    known = [each for each in dir(keras.applications) if each[:1].isupper()]
    require_application(name, known)
    builder = getattr(keras.applications, name)
    arguments: dict[str, Any] = {"weights": None}
    if input_shape is not None:
        if "input_shape" not in inspect.signature(builder).parameters:
            raise UsageError(f"keras.applications.{name} takes no input shape", hint="omit --input-shape")
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
