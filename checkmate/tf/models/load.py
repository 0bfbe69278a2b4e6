"""Load a model from a file, an application, a sample or a function.

The kind of a file is told by its content.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from checkmate.catalog.model_names import is_built_here, is_in_zoo, require_named
from checkmate.catalog.samples import find_sample
from checkmate.catalog.zoo import PREFIX as ZOO_PREFIX
from checkmate.errors import CheckmateError, TraceError
from checkmate.request import ModelRequest, Target
from checkmate.tf.builtin import applications
from checkmate.tf.builtin.build import build_zoo_model
from checkmate.tf.builtin.dtype_policy import dtype_policy
from checkmate.tf.builtin.samples import build_sample
from checkmate.tf.models.inputs import (
    Inputs,
    build_subclassed,
    describe_inputs,
    index_structure,
    resize_inputs,
)
from checkmate.tf.models.keras_graph import forget_unused, output_structure, outputs_of
from checkmate.tf.models.labels import describe_labels
from checkmate.tf.models.losses import compile_defaults, copy_optimizer_state, recompile
from checkmate.tf.models.model import LoadedModel
from checkmate.tf.models.own_step import is_own_step, load_own_step
from checkmate.tf.models.read_file import read_model
from checkmate.tf.models.user_code import FromCode, from_code


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
        found, name, notes = _open(request)
        if is_own_step(found):
            with dtype_policy(request.mixed_precision):  # its first trace may make layers
                return load_own_step(found, request, notes)
        model = _resized(found.subject, request, notes)
        inputs = describe_inputs(model, request)
        outputs = _outputs(model, inputs)
        notes += [*inputs.notes, *compile_defaults(model, request, keras.tree.flatten(outputs))]
        labels = describe_labels(model, outputs, request.batch_size)
        if not model.trainable_variables:
            raise TraceError(
                f"{name!r} has no trainable weights, so there is no training step",
                hint="set trainable = True where the model is built",
            )
        if forget_unused(model):
            gc.collect()
        model.optimizer.build(model.trainable_variables)
    jit_compiled, jit_notes = _jit(model, request)
    return LoadedModel(
        model=model,
        name=name,
        batch_size=request.batch_size,
        input_specs=inputs.specs,
        label_specs=labels.specs,
        input_structure=inputs.structure,
        label_structure=labels.structure,
        vocabularies=inputs.vocabularies,
        label_kinds=labels.kinds,
        label_classes=labels.classes,
        notes=(*notes, *labels.notes, *jit_notes),
        jit_compiled=jit_compiled,
    )


def parameter_bytes(model: Any) -> int:
    """Return the bytes of all the model's variables.

    These are weights, statistics and random seeds.
    """
    return sum(map(_variable_bytes, model.variables))


def optimizer_bytes(model: Any) -> int:
    """Return the bytes of the optimizer's variables."""
    return sum(map(_variable_bytes, model.optimizer.variables))


def _variable_bytes(variable: Any) -> int:
    return int(np.prod(variable.shape, dtype=np.int64)) * int(tf.as_dtype(variable.dtype).size)


def _require_backend() -> None:
    if keras.config.backend() != "tensorflow":
        raise CheckmateError(
            f"Keras is set up for the backend {keras.config.backend()!r} on this machine",
            hint="set KERAS_BACKEND=tensorflow",
        )


def _open(request: ModelRequest) -> tuple[FromCode, str, list[str]]:
    """Return the model or the step, its name and notes.

    Samples and applications are built at the requested input shape.
    """
    spec = request.model
    if not is_built_here(spec):
        path = Path(spec)
        model, notes = read_model(path, request)
        return FromCode(model), path.stem, notes
    notes = (
        [] if request.mixed_precision is None else [f"built under the dtype policy {request.mixed_precision}"]
    )
    with dtype_policy(request.mixed_precision):
        if spec.startswith(applications.PREFIX):
            name = spec.removeprefix(applications.PREFIX)
            return FromCode(applications.build_application(name, request.input_shape)), name, notes
        if is_in_zoo(spec):
            name = spec.removeprefix(ZOO_PREFIX)
            return FromCode(build_zoo_model(name)), name, notes
        if (sample := find_sample(spec)) is not None:
            return FromCode(build_sample(spec, request.input_shape or sample.input_shape)), spec, notes
        found = from_code(spec, allow_code=request.allow_code, batch_size=request.batch_size)
        return found, spec.rpartition(":")[2], notes


def _resized(model: Any, request: ModelRequest, notes: list[str]) -> Any:
    """Return the model at the requested input shape.

    A rebuilt model is compiled as the old one was.
    """
    if request.input_shape is None:
        return model
    resized, rebuilt = resize_inputs(model, request.input_shape)
    if rebuilt:
        if getattr(model, "compiled", False):
            recompile(resized, model)
            copy_optimizer_state(resized, model)
        notes.append(f"input shape set to {','.join(map(str, request.input_shape))}")
    return resized


def _outputs(model: Any, inputs: Inputs) -> Any:
    """Return the symbolic outputs in the structure that the call returns.

    A subclassed model gets its weights by this.
    """
    if not outputs_of(model):
        return build_subclassed(model, inputs)
    tensors = outputs_of(model)
    return keras.tree.map_structure(lambda index: tensors[index], index_structure(output_structure(model)))


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
