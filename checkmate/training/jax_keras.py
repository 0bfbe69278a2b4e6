"""Let a Keras model on JAX train within a budget.

Keras trains by one function from state and batch to state, ``train_step``, which is scheduled as any other.
"""

from __future__ import annotations

from typing import Any

import keras

from checkmate.backends.jax.models.load import state_of, without_missing
from checkmate.backends.jax.report import JaxReport
from checkmate.catalog.keras_2 import require_keras_3
from checkmate.errors import TraceError, UsageError
from checkmate.training.jax_function import Rematerialized
from checkmate.training.jax_planner import JaxRequest, request_of


def rematerialize_model(model: Any, budget: Any, example: Any, **wanted: Any) -> None:
    """Let ``fit`` and ``train_on_batch`` of ``model`` run scheduled steps."""
    _require(model)
    request = request_of(budget, donate_argnums=(0,), **wanted)
    if not model.jit_compile:
        names = ", ".join(map(repr, _layers_without_xla(model)))
        request.tell(f"Keras trains without XLA, because of {names}; the scheduled step is compiled by XLA")

    def make_train_function(force: bool = False) -> None:
        if model.train_function is not None and not force:
            return
        _require(model)
        step = _named(model, request)
        make_train_function.step = step  # type: ignore[attr-defined]
        model.train_function = model._make_function(lambda state, data: step(state, without_missing(data)))

    model.make_train_function = make_train_function
    model.train_function = None
    if example is not None:
        _prepare(model, example)


def step_of(model: Any) -> Rematerialized | None:
    """Return the scheduled step of a model; None: it is not rematerialized, or was not compiled since."""
    found: Rematerialized | None = getattr(getattr(model, "make_train_function", None), "step", None)
    return found


def report_of(model: Any) -> JaxReport:
    """Return the report of the plan that was last made for a model.

    Raises:
        UsageError: no plan was made for it.
    """
    step = step_of(model)
    if step is None:
        raise UsageError(
            "no plan was made for this model",
            hint="call checkmate.rematerialize(model, budget), and train; or pass example=(x, y)",
        )
    return step.report


def _named(model: Any, request: JaxRequest) -> Rematerialized:
    def train_step(state: Any, data: Any) -> Any:
        return model.train_step(state, data)

    train_step.__name__ = str(model.name)
    return Rematerialized(train_step, request, plain=None if model.jit_compile else train_step)


def _prepare(model: Any, example: Any) -> None:
    data = example if isinstance(example, tuple) else (example,)
    data = (*data, *(None,) * (3 - len(data)))
    model._symbolic_build(data_batch=data)
    model.make_train_function()
    model.make_train_function.step.prepare(state_of(model), without_missing(data))


def _require(model: Any) -> None:
    require_keras_3(model)
    if not isinstance(model, keras.Model):
        raise UsageError(
            f"{type(model).__name__} is no Keras model",
            hint="a step that is a function is for checkmate.jax.rematerialize",
        )
    if not model.compiled:
        raise UsageError("the model is not compiled", hint="call model.compile first")
    if model.run_eagerly or not (model.jit_compile or _layers_without_xla(model)):
        raise UsageError(
            "the model is not compiled by XLA, so no schedule would hold",
            hint="compile it without run_eagerly=True and without jit_compile=False",
        )
    if keras.distribution.distribution() is not None:
        raise TraceError(
            "the model is distributed over devices", hint="train on one device, or use jax.checkpoint"
        )
    if keras.config.is_nnx_enabled():
        raise TraceError(
            "Keras keeps its variables in Flax (NNX)", hint="set KERAS_NNX_ENABLED=false before Keras starts"
        )


def _layers_without_xla(model: Any) -> list[str]:
    """Return the layers that keep Keras from compiling a model. Keras marks them for all backends, but JAX
    compiles most: four steps of an MLP-Mixer with ``RandomZoom`` took 0.8 s, not 1.3 s, with the same loss. A
    layer that JAX cannot trace is named when it is traced."""
    return [layer.name for layer in model._flatten_layers() if not layer.supports_jit]
