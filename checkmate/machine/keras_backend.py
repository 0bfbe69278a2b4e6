"""Tell what Keras computes with, without importing it.

The import takes seconds, and imports what it computes with.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path

from checkmate.errors import UsageError
from checkmate.ir.graph import Graph

JAX, TENSORFLOW = "jax", "tensorflow"


def keras_backend() -> str:
    """Return the name of Keras's backend, as Keras itself would choose it.

    It is that of the Keras that is imported; else ``KERAS_BACKEND``, else what ``keras.json`` says.
    """
    keras = sys.modules.get("keras")
    if keras is not None and hasattr(keras, "config"):
        return str(keras.config.backend())
    return os.environ.get("KERAS_BACKEND") or _configured() or TENSORFLOW


def require_backend() -> str:
    """Return the name of Keras's backend, whose steps can be scheduled.

    Raises:
        UsageError: it is neither TensorFlow nor JAX, or it is JAX, which is not installed.
    """
    backend = keras_backend()
    if backend not in (JAX, TENSORFLOW):
        raise UsageError(
            f"Keras is set up for the backend {backend!r}, but schedules are for TensorFlow and JAX",
            hint="set KERAS_BACKEND=tensorflow, before Keras is imported",
        )
    if backend == JAX and find_spec("jax") is None:
        raise UsageError(
            f"Keras is set up for the backend {backend!r}, which is not installed",
            hint="pip install 'checkmate-explorer[jax]', or set KERAS_BACKEND=tensorflow",
        )
    return backend


def is_of_jax(graph: Graph) -> bool:
    """Return whether a graph is of a JAX step, by its metadata."""
    return bool(graph.metadata.get("framework") == JAX)


def _configured() -> str:
    """Return the backend that Keras's own file names, or nothing."""
    home = Path(os.environ.get("KERAS_HOME") or Path("~/.keras").expanduser())
    try:
        told = json.loads((home / "keras.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return str(told.get("backend", "")) if isinstance(told, dict) else ""
