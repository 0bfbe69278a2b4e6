"""What runs a step: TensorFlow's executor, XLA or JAX, and what is different with each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

JAX, TENSORFLOW = "jax", "tensorflow"


@dataclass(frozen=True)
class Runner:
    """What runs a step.

    ``backend``: Keras's. ``by``: the runner in a sentence; empty for the usual one. ``compiled``: XLA
    compiles the step and says what it takes. ``metered``: an allocator's meter shows the peak; else only XLA
    tells it. ``environment``: what Keras must be told to use it. ``loading``: how its export is loaded, where
    the folder has no example of that.
    """

    backend: str = TENSORFLOW
    by: str = ""
    compiled: bool = False
    metered: bool = True
    environment: str = ""
    loading: str = ""


_EXECUTOR = Runner()
_XLA = Runner(by="compiled by XLA", compiled=True)
_JAX = Runner(
    backend=JAX,
    by="by JAX",
    compiled=True,
    metered=False,
    environment=f"KERAS_BACKEND={JAX}",
    loading="step.jax-export is for jax.export.deserialize; see export.json",
)


def runner_of(told: Mapping[str, Any]) -> Runner:
    """Return what runs the step that a graph's metadata or a report's settings tell of."""
    if told.get("framework") == JAX:
        return _JAX
    return _XLA if told.get("target") == "xla" else _EXECUTOR
