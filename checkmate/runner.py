"""What runs a step: TensorFlow's executor, XLA, JAX, PyTorch. ``RUNNERS`` says what differs with each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

JAX, TENSORFLOW, TORCH = "jax", "tensorflow", "torch"
KERAS_BACKENDS = (TENSORFLOW, JAX)  # whose steps can be scheduled


@dataclass(frozen=True)
class Runner:
    """A way to run a step.

    ``backend``: Keras's, or ``torch`` for modules of PyTorch. ``title``: its name in a sentence. ``code``:
    module and class of its ``backends.protocol.Backend``. ``target``: the user's name for it, if the backend
    has several runners. ``by``: the runner in a sentence; empty for the usual one. ``compiled``: XLA
    compiles the step and reports its memory. ``metered``: an allocator's meter shows the peak; else only XLA
    reports it. ``environment``: the variables that make Keras use it. ``writes``: the kind of file that an
    export writes beside records. ``loading``: how to load that file, if the folder holds no example.
    """

    backend: str
    title: str
    code: tuple[str, str]
    target: str | None = None
    by: str = ""
    compiled: bool = False
    metered: bool = True
    environment: str = ""
    writes: str = "a SavedModel that needs TensorFlow alone"
    loading: str = ""


_EXECUTOR = Runner(TENSORFLOW, "TensorFlow", ("checkmate.backends.tf.backend", "TensorflowBackend"))
RUNNERS = (
    _EXECUTOR,
    replace(_EXECUTOR, target="xla", by="compiled by XLA", compiled=True),
    Runner(
        JAX,
        "JAX",
        ("checkmate.backends.jax.backend", "JaxBackend"),
        by="by JAX",
        compiled=True,
        metered=False,
        environment=f"KERAS_BACKEND={JAX}",
        writes="a step that needs JAX alone",
        loading="step.jax-export is for jax.export.deserialize; see export.json",
    ),
    Runner(
        TORCH,
        "PyTorch",
        ("checkmate.backends.torch.backend", "TorchBackend"),
        by="by PyTorch",
        writes="code that needs PyTorch alone",
    ),
)


def runner_of(told: Mapping[str, Any]) -> Runner:
    """Return what runs the step that a graph's metadata or a report's settings tell of."""
    here = runners_of(told.get("framework")) or runners_of(TENSORFLOW)
    return next((runner for runner in here if runner.target == told.get("target")), here[0])


def runners_of(backend: object) -> tuple[Runner, ...]:
    """Return those of one of Keras's backends; none where its steps cannot be scheduled."""
    return tuple(runner for runner in RUNNERS if runner.backend == backend)
