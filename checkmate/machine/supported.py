"""Which TensorFlow and Keras are installed, and what Keras computes with, without importing them.

The limits are those of ``pyproject.toml``; an environment that pip did not make is detected here.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from checkmate.errors import UnsupportedVersionError, UsageError
from checkmate.runner import JAX, KERAS_BACKENDS, TENSORFLOW, TORCH, runners_of

OLDEST, NEWEST = (2, 19), (2, 21)  # of TensorFlow, both included
OLDEST_KERAS = (3, 12)
# A variant replaces the plain package under the same import name; the first one found counts.
TENSORFLOWS = ("tensorflow", "tensorflow-cpu", "tf-nightly", "tf-nightly-cpu", "tensorflow-macos")
TENSORFLOW_RANGE = f">={OLDEST[0]}.{OLDEST[1]},<{NEWEST[0]}.{NEWEST[1] + 1}"
KERAS_RANGE = f">={OLDEST_KERAS[0]}.{OLDEST_KERAS[1]},<{OLDEST_KERAS[0] + 1}"
_COMMAND = f"pip install 'tensorflow{TENSORFLOW_RANGE}' 'keras{KERAS_RANGE}'"


def why_unsupported() -> str:
    """Return which release is unsupported and which is needed, or "". What is not installed is not judged."""
    found = versions((*TENSORFLOWS, "keras"))
    name, tensorflow = next(((name, found[name]) for name in TENSORFLOWS if name in found), ("", ""))
    if name and not OLDEST <= _release(tensorflow) <= NEWEST:
        also = "" if name == "tensorflow" else f" ({name})"
        return f"needs TensorFlow {_words(OLDEST)} to {_words(NEWEST)}; found {tensorflow}{also}"
    keras = found.get("keras", "")
    if keras and not OLDEST_KERAS <= _release(keras) < (OLDEST_KERAS[0] + 1,):
        return f"needs Keras {_words(OLDEST_KERAS)} or a later Keras {OLDEST_KERAS[0]}; found {keras}"
    return ""


def require_supported() -> None:
    problem = why_unsupported()
    if problem:
        raise UnsupportedVersionError(f"Checkmate {problem}", hint=_COMMAND)


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def _words(release: tuple[int, int]) -> str:
    return f"{release[0]}.{release[1]}"


def versions(libraries: Sequence[str]) -> dict[str, str]:
    """Names are those of the package index; libraries that are not installed are left out."""
    found = {}
    for name in libraries:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def keras_backend() -> str:
    """Return the backend of the imported Keras, else ``KERAS_BACKEND``, else of ``keras.json``."""
    keras = sys.modules.get("keras")
    if keras is not None and hasattr(keras, "config"):
        return str(keras.config.backend())
    return os.environ.get("KERAS_BACKEND") or _configured() or TENSORFLOW


def steps_are_tensorflows() -> bool:
    """Return whether a supported TensorFlow computes the steps here."""
    return keras_backend() == TENSORFLOW and not why_unsupported()


def require_backend() -> str:
    """Return the name of Keras's backend, whose steps can be scheduled.

    Raises:
        UsageError: it is neither TensorFlow nor JAX, or it is JAX, which is not installed.
        UnsupportedVersionError: it is TensorFlow, in a release that is not supported.
    """
    backend = keras_backend()
    if backend not in KERAS_BACKENDS:
        titles = " and ".join(runners_of(each)[0].title for each in KERAS_BACKENDS)
        raise UsageError(
            f"Keras is set up for the backend {backend!r}, but schedules are for {titles}",
            hint="set KERAS_BACKEND=tensorflow, before Keras is imported",
        )
    if backend == JAX and find_spec("jax") is None:
        raise UsageError(
            f"Keras is set up for the backend {backend!r}, which is not installed",
            hint="pip install 'checkmate-explorer[jax]', or set KERAS_BACKEND=tensorflow",
        )
    if backend == TENSORFLOW:
        require_supported()
    return backend


def require_torch(model: str) -> None:
    """Raise a UsageError where ``model`` is PyTorch's, and that is not installed."""
    if find_spec(TORCH) is None:
        raise UsageError(
            f"{model} is code for PyTorch, which is not installed",
            hint="pip install 'checkmate-explorer[torch]'",
        )


def _configured() -> str:
    home = Path(os.environ.get("KERAS_HOME") or Path("~/.keras").expanduser())
    try:
        told = json.loads((home / "keras.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return str(told.get("backend", "")) if isinstance(told, dict) else ""
