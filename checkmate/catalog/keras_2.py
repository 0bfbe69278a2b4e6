"""Name a model of Keras 2 (``tf_keras``), whose classes are not Keras 3's."""

from __future__ import annotations

from checkmate.errors import CheckmateError, UsageError

KERAS_2 = "Keras 2 (tf_keras)"
KERAS_2_HINT = (
    "build it with Keras 3 (import keras), or write its training step as a function, for "
    "checkmate.rematerialize_function or as file.py:function"
)


def require_keras_3(given: object, shown: str = "", error: type[CheckmateError] = UsageError) -> None:
    """Raise ``error`` for a model of Keras 2. ``shown``: what it came from."""
    if any(kind.__module__.partition(".")[0] == "tf_keras" for kind in type(given).__mro__):
        what = f"{shown} returned" if shown else f"{type(given).__name__} is"
        raise error(f"{what} a model of {KERAS_2}, and only those of Keras 3 are planned", hint=KERAS_2_HINT)
