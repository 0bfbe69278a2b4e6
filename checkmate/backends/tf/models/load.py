"""Load a model from a file, an application, a sample or a function.

The kind of a file is told by its content.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from checkmate.backends.tf.models.model import LoadedModel, tensor_specs
from checkmate.backends.tf.models.own_step import is_own_step, load_own_step
from checkmate.backends.tf.models.step_rules import step_rules
from checkmate.catalog.model_names import require_named
from checkmate.errors import CheckmateError
from checkmate.models.builtin import dtype_policy
from checkmate.models.ready import find_model, make_ready
from checkmate.request import ModelRequest, Target


def load_model(request: ModelRequest) -> LoadedModel:
    """Load the model, or the training step, that ``request`` names.

    A model is compiled, with its weights and its optimizer's state built. The process is left as it was: no
    seed is set, and the dtype policy is put back.

    Raises:
        LoadError: the model cannot be found, read or safely opened.
        DynamicShapeError: the shape of an input is open.
        TraceError: it has no training step that could be scheduled.
        UsageError: an option does not fit the model.
    """
    _require_backend()
    require_named(request)
    with dtype_policy(None):
        found = find_model(request, step_rules())
        if is_own_step(found.code):
            with dtype_policy(request.mixed_precision):  # its first trace may make layers
                return load_own_step(found.code, request, list(found.notes))
        ready = make_ready(found, request)
    model, inputs, labels = ready.model, ready.inputs, ready.labels
    jit_compiled, jit_notes = _jit(model, request)
    return LoadedModel(
        model=model,
        name=ready.name,
        batch_size=request.batch_size,
        input_specs=tensor_specs(inputs.specs),
        label_specs=tensor_specs(labels.specs),
        input_structure=inputs.structure,
        label_structure=labels.structure,
        vocabularies=inputs.vocabularies,
        label_kinds=labels.kinds,
        label_classes=labels.classes,
        notes=(*ready.notes, *jit_notes),
        jit_compiled=jit_compiled,
    )


def _require_backend() -> None:
    if keras.config.backend() != "tensorflow":
        raise CheckmateError(
            f"Keras is set up for the backend {keras.config.backend()!r} on this machine",
            hint="set KERAS_BACKEND=tensorflow; with JAX, models are for profile, run, export and verify",
        )


def _jit(model: Any, request: ModelRequest) -> tuple[bool, tuple[str, ...]]:
    """Return whether XLA is to compile the model's step, and notes.

    Keras itself chooses XLA ("auto") where there is a GPU, and keeps only the outcome. There, True does not
    tell what the user wanted, and the step without XLA is the one to schedule.
    """
    if request.target is not None:
        return request.target == Target.XLA, ()
    if getattr(model, "jit_compile", None) is not True:
        return False, ()
    if any(device.device_type != "CPU" for device in tf.config.list_physical_devices()):
        return False, ("the step is traced and scheduled without XLA, which Keras would use on this machine",)
    return True, ()
