from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.models.model import LoadedModel, keras_model
from checkmate.backends.tf.models.own_step import has_own_step, load_own_step
from checkmate.catalog.model_names import require_named
from checkmate.errors import CheckmateError, LoadError
from checkmate.models.builtin import dtype_policy
from checkmate.models.ready import find_model, make_ready
from checkmate.request import ModelRequest, Target

# Types of steps; these must be made by a user's function, which is called for each new trace.
_COMPILED = (tf.types.experimental.PolymorphicFunction, tf.types.experimental.ConcreteFunction)


def load_model(request: ModelRequest) -> LoadedModel:
    """Load the model, compiled and with its optimizer's state built, or the training step, that ``request``
    names. The process is left as it was: no seed is set, and the dtype policy is put back."""
    if keras.config.backend() != "tensorflow":
        raise CheckmateError(
            f"Keras is set up for the backend {keras.config.backend()!r} on this machine",
            hint="set KERAS_BACKEND=tensorflow; with JAX, models are for profile, run, export and verify",
        )
    require_named(request)
    with dtype_policy(None):
        found = find_model(request, _COMPILED)
        if found.code.has_example:
            _require_step(found.code.subject, request.model)
        if found.code.has_example or has_own_step(found.code.subject):
            with dtype_policy(request.mixed_precision):  # its first trace may make layers
                return load_own_step(found.code, request, list(found.notes))
        ready = make_ready(found, request)
    jit_compiled, notes = _jit(ready.model, request)
    return keras_model(
        ready.model,
        ready.name,
        request.batch_size,
        ready.inputs,
        ready.labels,
        notes=(*ready.notes, *notes),
        jit_compiled=jit_compiled,
    )


def _jit(model: Any, request: ModelRequest) -> tuple[bool, tuple[str, ...]]:
    """Return whether XLA is to compile the model's step, and notes. Keras itself chooses XLA ("auto") where
    there is a GPU, and keeps only its choice. So True does not say there that the user wants XLA, and the
    step without XLA is scheduled."""
    if request.target is not None:
        return request.target == Target.XLA, ()
    if getattr(model, "jit_compile", None) is not True:
        return False, ()
    if any(device.device_type != "CPU" for device in tf.config.list_physical_devices()):
        return False, ("the step is traced and scheduled without XLA, which Keras would use on this machine",)
    return True, ()


def _require_step(subject: Any, spec: str) -> None:
    if isinstance(subject, tf.types.experimental.ConcreteFunction):
        raise LoadError(
            f"{spec} returned a concrete function, which is traced for one layout already",
            hint="return the tf.function that it came from",
        )
    if private.method_owner(subject) == (True, None):
        raise LoadError(
            f"{spec} returned a method of an object that is gone: a tf.function does not keep its object",
            hint="keep the object outside of the function, or return a function that calls the method",
        )
