"""Find a model and make it ready to be traced: built, compiled, its batch described."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras

from checkmate.catalog.model_names import APPLICATIONS, is_built_here
from checkmate.catalog.samples import find_sample
from checkmate.errors import TraceError
from checkmate.models.builtin import build_application, dtype_policy
from checkmate.models.inputs import Inputs, build_subclassed, describe_inputs, index_structure, resize_inputs
from checkmate.models.keras_graph import forget_unused, output_structure, outputs_of
from checkmate.models.losses import Labels, compile_defaults, copy_optimizer_state, describe_labels, recompile
from checkmate.models.read_file import read_model
from checkmate.models.sample_networks import build_sample
from checkmate.models.user_code import FromCode, from_code
from checkmate.request import ModelRequest


@dataclass(frozen=True, eq=False)
class Found:
    code: FromCode
    name: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class ReadyModel:
    model: Any
    name: str
    inputs: Inputs
    labels: Labels
    notes: tuple[str, ...]


def find_model(request: ModelRequest, steps: tuple[type, ...]) -> Found:
    """Return the model or step that ``request`` names. ``steps``: types of compiled functions, which make no
    step."""
    spec = request.model
    if not is_built_here(spec):
        path = Path(spec)
        model, notes = read_model(path, request)
        return Found(FromCode(model), path.stem, tuple(notes))
    policy = request.mixed_precision
    said = () if policy is None else (f"built under the dtype policy {policy}",)
    with dtype_policy(policy):
        if spec.startswith(APPLICATIONS):
            name = spec.removeprefix(APPLICATIONS)
            return Found(FromCode(build_application(name, request.input_shape)), name, said)
        if (sample := find_sample(spec)) is not None:
            built = build_sample(spec, request.input_shape or sample.input_shape)
            return Found(FromCode(built), spec, said)
        return Found(from_code(request, steps), spec.rpartition(":")[2], said)


def make_ready(found: Found, request: ModelRequest) -> ReadyModel:
    notes = list(found.notes)
    model = _resized(found.code.subject, request, notes)
    inputs = describe_inputs(model, request)
    outputs = _outputs(model, inputs)
    notes += [*inputs.notes, *compile_defaults(model, request, keras.tree.flatten(outputs))]
    labels = describe_labels(model, outputs, request.batch_size)
    if not model.trainable_variables:
        raise TraceError(
            f"{found.name!r} has no trainable weights, so there is no training step",
            hint="set trainable = True where the model is built",
        )
    if forget_unused(model):
        gc.collect()
    model.optimizer.build(model.trainable_variables)
    return ReadyModel(model, found.name, inputs, labels, (*notes, *labels.notes))


def _resized(model: Any, request: ModelRequest, notes: list[str]) -> Any:
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
    """Return the symbolic outputs as the call returns them; this gives a subclassed model its weights."""
    if not outputs_of(model):
        return build_subclassed(model, inputs)
    tensors = outputs_of(model)
    return keras.tree.map_structure(lambda index: tensors[index], index_structure(output_structure(model)))
