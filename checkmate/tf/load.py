"""Loading a model from what the user named: a file, an application, a sample or a function, by content, never by luck."""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from checkmate.errors import (
    DynamicShapeError,
    LoadError,
    ModelReadError,
    TraceError,
    UnsafeModelError,
    UnsupportedFormatError,
    UsageError,
)
from checkmate.request import ModelRequest
from checkmate.samples import SAMPLES, find_sample
from checkmate.tf.loaded import LoadedModel
from checkmate.tf.losses import compile_defaults, describe_labels
from checkmate.tf.samples import build_sample

_HDF5 = b"\x89HDF\r\n\x1a\n"
_APPLICATIONS = "keras.applications."


def load_model(request: ModelRequest) -> LoadedModel:
    """The model that ``request`` names, compiled, with its optimizer's state built.

    Raises:
        LoadError: it cannot be found, read or safely opened. DynamicShapeError: an input's shape is open.
        TraceError: its outputs do not fit its loss. UsageError: an option does not fit the model.
    """
    notes: list[str] = []
    model, name = _open(request, notes)
    model = _with_input_shape(model, request, notes)
    specs = _input_specs(model, request)
    if request.mixed_precision and _is_file(request.model):
        raise UsageError(
            "--mixed-precision cannot change a saved model, whose layers carry their own dtype policies",
            hint="set the policy where the model is built, and save it again",
        )
    _build(model, specs)
    notes.extend(compile_defaults(model, request))
    labels = describe_labels(model, request.batch_size)
    model.optimizer.build(model.trainable_variables)
    if not model.trainable_variables:
        raise TraceError(
            f"{name!r} has no trainable weights, so there is no training step", hint="set trainable = True"
        )
    return LoadedModel(
        model=model,
        name=name,
        batch_size=request.batch_size,
        input_specs=specs,
        label_specs=labels.specs,
        label_kinds=labels.kinds,
        label_classes=labels.classes,
        vocabularies=tuple(_vocabulary(model, i, spec) for i, spec in enumerate(specs)),
        notes=tuple(notes),
        jit_compiled=getattr(model, "jit_compile", None) is True,
    )


def parameter_bytes(model: Any) -> int:
    """Bytes of all the model's variables: weights, statistics, random seeds."""
    return sum(_variable_bytes(variable) for variable in model.variables)


def optimizer_bytes(model: Any) -> int:
    """Bytes of the optimizer's variables."""
    return sum(_variable_bytes(variable) for variable in model.optimizer.variables)


def _variable_bytes(variable: Any) -> int:
    return int(np.prod(variable.shape, dtype=np.int64)) * int(tf.as_dtype(variable.dtype).size)


def _is_file(spec: str) -> bool:
    return not spec.startswith(_APPLICATIONS) and find_sample(spec) is None and ".py:" not in spec


def _open(request: ModelRequest, notes: list[str]) -> tuple[Any, str]:
    spec = request.model
    if spec.startswith(_APPLICATIONS):
        return _application(request), spec.removeprefix(_APPLICATIONS)
    if ".py:" in spec:
        return _from_function(request), spec.rsplit(":", 1)[1]
    sample = find_sample(spec)
    if sample is not None and not Path(spec).exists():
        shape = sample.input_shape
        if request.input_shape is not None and sample.resizable:
            shape = request.input_shape
        with _policy(request.mixed_precision):
            return build_sample(spec, shape), spec
    return _from_file(request), Path(spec).stem


def _application(request: ModelRequest) -> Any:
    name = request.model.removeprefix(_APPLICATIONS)
    builder = getattr(keras.applications, name, None)
    if builder is None or not callable(builder):
        known = [n for n in dir(keras.applications) if n[0].isupper()]
        close = difflib.get_close_matches(name, known, n=1)
        raise LoadError(
            f"keras.applications has no model {name!r}",
            hint=f"did you mean keras.applications.{close[0]}?" if close else f"there are: {', '.join(known)}",
        )
    arguments: dict[str, Any] = {"weights": None}
    if request.input_shape is not None and "input_shape" in inspect.signature(builder).parameters:
        arguments["input_shape"] = request.input_shape
        # A size other than the default only fits without the classifier's fixed grid.
    try:
        with _policy(request.mixed_precision):
            return builder(**arguments)
    except (ValueError, TypeError) as error:
        raise LoadError(f"keras.applications.{name} could not be built: {_first_line(error)}") from error


@contextmanager
def _policy(name: str | None) -> Iterator[None]:
    """Build layers under a dtype policy, and put the process's own back."""
    before = keras.mixed_precision.dtype_policy()
    if name is not None:
        try:
            keras.mixed_precision.set_dtype_policy(name)
        except (ValueError, TypeError) as error:
            raise UsageError(
                f"{name!r} is no dtype policy of Keras", hint="use mixed_float16 or mixed_bfloat16"
            ) from error
    try:
        yield
    finally:
        keras.mixed_precision.set_dtype_policy(before)


def _from_function(request: ModelRequest) -> Any:
    file_name, _, function_name = request.model.rpartition(":")
    path = Path(file_name)
    if not path.is_file():
        raise LoadError(f"there is no file {file_name}", hint="write file.py:function")
    if not request.allow_code:
        raise UnsafeModelError(
            f"{request.model} would run the code in {file_name}", hint="add --allow-code if you trust that file"
        )
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        with _policy(request.mixed_precision):
            spec.loader.exec_module(module)
            function = getattr(module, function_name, None)
            if not callable(function):
                raise LoadError(f"{file_name} has no function {function_name!r}")
            model = function()
    except LoadError:
        raise
    except Exception as error:  # the user's own code: whatever it raises is reported with its place
        raise ModelReadError(
            f"{request.model} failed: {type(error).__name__}: {_first_line(error)}{_place(error, path)}"
        ) from error
    if not isinstance(model, keras.Model):
        raise LoadError(
            f"{request.model} returned {type(model).__name__}, not a keras.Model", hint="return the model itself"
        )
    return model


def _place(error: BaseException, path: Path) -> str:
    trace, line = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return f" ({path.name}, line {line})" if line else ""


def _from_file(request: ModelRequest) -> Any:
    path = Path(request.model)
    if not path.exists():
        names = [sample.name for sample in SAMPLES]
        close = difflib.get_close_matches(request.model, names, n=1)
        raise LoadError(
            f"there is no file or sample {request.model!r}",
            hint=f"did you mean {close[0]}?" if close else f"samples: {', '.join(names)}; or keras.applications.NAME",
        )
    if path.is_dir():
        raise UnsupportedFormatError(
            f"{path} is a folder; a SavedModel has no Keras layers to train",
            hint="save the Keras model as a .keras file",
        )
    with path.open("rb") as file:
        start = file.read(8)
    if start == _HDF5:
        kind = ".h5"
    elif zipfile.is_zipfile(path) and "config.json" in zipfile.ZipFile(path).namelist():
        kind = ".keras"
    elif start[:2] == b"PK":
        raise ModelReadError(
            f"{path} is a damaged or foreign zip archive, not a whole .keras file", hint="save or copy the model again"
        )
    else:
        raise UnsupportedFormatError(
            f"{path} is neither a .keras nor an .h5 model file", hint="save it with model.save('model.keras')"
        )
    return _read(path, kind, request)


def _read(path: Path, kind: str, request: ModelRequest) -> Any:
    try:
        return keras.models.load_model(path, safe_mode=not request.allow_code)
    except (ValueError, TypeError, OSError, KeyError, EOFError, zipfile.BadZipFile) as error:
        text = str(error)
        if "safe_mode" in text or "safe mode" in text or "unsafe" in text.lower() or "Lambda" in text:
            raise UnsafeModelError(
                f"{path} contains a Lambda layer, whose Python code would run when it is opened",
                hint="add --allow-code if you trust the file",
            ) from error
        if "Could not locate class" in text or "Unknown layer" in text or "registered" in text:
            raise ModelReadError(
                f"{path} uses a custom class that is not known here: {_first_line(error)}",
                hint="write a file.py with a function that builds or loads the model, and pass file.py:function",
            ) from error
        raise ModelReadError(
            f"{path} cannot be read as a {kind} model: {_first_line(error)}",
            hint="the file may be truncated; save or copy the model again",
        ) from error


def _with_input_shape(model: Any, request: ModelRequest, notes: list[str]) -> Any:
    """The model at ``request.input_shape``, where it leaves its own open."""
    shape = request.input_shape
    if shape is None or not getattr(model, "inputs", None):
        return model
    own = tuple(model.inputs[0].shape[1:])
    if own == shape:
        return model
    fits = len(own) == len(shape) and all(a is None or a == b for a, b in zip(own, shape, strict=True))
    if not fits or len(model.inputs) != 1:
        raise UsageError(
            f"--input-shape {shape} does not fit the model's input {model.inputs[0].name!r} of shape {own}",
            hint="give the sizes that the model leaves open, in its order",
        )
    fixed = keras.Input(shape, dtype=model.inputs[0].dtype, name=model.inputs[0].name)
    compiled = model.get_compile_config() if getattr(model, "compiled", False) else None
    rebuilt = keras.models.clone_model(model, input_tensors=[fixed])
    rebuilt.set_weights(model.get_weights())
    if compiled is not None:
        rebuilt.compile_from_config(compiled)
    notes.append(f"input shape set to {shape}")
    return rebuilt


def _input_specs(model: Any, request: ModelRequest) -> tuple[tf.TensorSpec, ...]:
    inputs = getattr(model, "inputs", None)
    if not inputs:
        if request.input_shape is None:
            raise DynamicShapeError(
                f"the model {model.name!r} does not say what input it takes",
                hint="pass --input-shape, e.g. --input-shape 224,224,3",
            )
        return (tf.TensorSpec((request.batch_size, *request.input_shape), tf.float32),)
    specs = []
    for tensor in inputs:
        if None in tuple(tensor.shape[1:]):
            raise DynamicShapeError(
                f"input {tensor.name!r} has shape {tuple(tensor.shape)}, with sizes left open beyond the batch",
                hint="pass --input-shape, e.g. --input-shape 224,224,3",
            )
        if tensor.shape[0] is not None and tensor.shape[0] != request.batch_size:
            raise UsageError(
                f"input {tensor.name!r} has a fixed batch of {tensor.shape[0]}, not {request.batch_size}",
                hint=f"use -b {tensor.shape[0]}",
            )
        specs.append(tf.TensorSpec((request.batch_size, *tensor.shape[1:]), tf.as_dtype(tensor.dtype)))
    return tuple(specs)


def _build(model: Any, specs: tuple[tf.TensorSpec, ...]) -> None:
    """Give a subclassed model its weights by calling it once symbolically."""
    if model.built and model.variables:
        return
    try:
        model.build(specs[0].shape if len(specs) == 1 else [spec.shape for spec in specs])
        if not model.variables:
            model(tf.zeros(specs[0].shape, specs[0].dtype))
    except (ValueError, TypeError, NotImplementedError) as error:
        raise TraceError(f"the model {model.name!r} could not be built: {_first_line(error)}") from error


def _vocabulary(model: Any, index: int, spec: tf.TensorSpec) -> int:
    """How many ids input ``index`` may take: the smallest embedding that could read it; 0 for real-valued inputs."""
    embeddings = [layer.input_dim for layer in _all_layers(model) if isinstance(layer, keras.layers.Embedding)]
    if spec.dtype.is_integer or (
        embeddings and index < len(embeddings) and spec.shape.rank == 2 and _feeds(model, index)
    ):
        return min(embeddings, default=2)
    return 0


def _feeds(model: Any, index: int) -> bool:
    """Whether input ``index`` goes straight into an embedding."""
    if not getattr(model, "inputs", None):
        return False
    wanted = model.inputs[index]
    for layer in _all_layers(model):
        nodes = getattr(layer, "_inbound_nodes", None) or ()
        reads = any(tensor is wanted for node in nodes for tensor in node.input_tensors)
        if isinstance(layer, keras.layers.Embedding) and reads:
            return True
    return False


def _all_layers(model: Any) -> Iterator[Any]:
    for layer in getattr(model, "layers", []):
        yield layer
        yield from _all_layers(layer)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
