"""Read a whole Keras model from a ``.keras`` or ``.h5`` file, safely, compiled as it was when it was saved.

The training configuration is read part by part, because Keras gives up on the whole file if one part is
unknown here. Metrics are left out."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import keras

from checkmate.catalog.file_kind import HDF5, KERAS, keras_config, model_file_kind
from checkmate.catalog.keras_2 import KERAS_2, KERAS_2_HINT
from checkmate.errors import ModelReadError, UnsafeModelError
from checkmate.models.declared import require_own_data
from checkmate.models.error_text import reason
from checkmate.request import ModelRequest

# Errors that Keras, h5py and zipfile were seen to raise for damaged or foreign files.
_READ_ERRORS = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    OSError,
    EOFError,
    RuntimeError,
    ImportError,
    MemoryError,
    ArithmeticError,
    AssertionError,
    zipfile.BadZipFile,
    zlib.error,
)
_CUT = re.compile(r"truncated file: eof = (\d+), .*stored_eof = (\d+)")
_NO_SLOTS = re.compile(r"Skipping variable loading for optimizer .* the saved optimizer has [0-2] variables")
_CUSTOM = re.compile(r"Could not locate (?:class|function) '([^']+)'|Unknown layer: '?([^'.]+)'?")


def read_model(path: Path, request: ModelRequest) -> tuple[Any, list[str]]:
    kind = model_file_kind(path)
    require_own_data(path, kind)
    model, notes = _read(path, kind, request)
    return model, [*notes, f"the file was saved by {KERAS_2}"] if _is_of_keras_2(path) else notes


def _is_of_keras_2(path: Path) -> bool:
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                version = json.loads(archive.read("metadata.json"))["keras_version"]
        else:
            with h5py.File(path, "r") as file:
                version = file.attrs["keras_version"]
    except _READ_ERRORS:
        return False
    return (version.decode() if isinstance(version, bytes) else str(version)).startswith("2.")


def _read(path: Path, kind: str, request: ModelRequest) -> tuple[Any, list[str]]:
    with _named_by_kind(path, kind) as readable:
        if kind == KERAS:
            try:
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always", UserWarning)  # all of Keras's
                    model = keras.saving.load_model(readable, safe_mode=not request.allow_code)
                return model, _notes_of_warnings(caught)
            except _read_errors():
                # Perhaps only its loss, optimizer or metrics are unknown. If not, the next call explains.
                model = _load(path, readable, kind, request)
            return model, compile_as_saved(model, keras_config(path).get("compile_config"), path, request)
        model = _load(path, readable, kind, request)
        # Keras 3.15 cannot read its own short loss names ("mse") from HDF5; read the training part here.
        notes = compile_as_saved(model, _hdf5_training_config(path), path, request)
        if getattr(model, "compiled", False):
            notes += _restore_hdf5_optimizer(model, path)
        return model, notes


def _notes_of_warnings(caught: list[warnings.WarningMessage]) -> list[str]:
    texts = dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught)
    return [text for text in texts if not _NO_SLOTS.search(text)]


def _load(path: Path, readable: Path, kind: str, request: ModelRequest) -> Any:
    try:
        return keras.saving.load_model(readable, compile=False, safe_mode=not request.allow_code)
    except _read_errors() as error:
        raise _read_error(error, path, kind) from error


def _read_errors() -> tuple[type[BaseException], ...]:
    """Return the errors that reading may raise; if TensorFlow is loaded, its own too."""
    tensorflow = sys.modules.get("tensorflow")
    return _READ_ERRORS if tensorflow is None else (*_READ_ERRORS, tensorflow.errors.OpError)


def _read_error(error: BaseException, path: Path, kind: str) -> ModelReadError | UnsafeModelError:
    text = str(error)
    if "safe_mode=False" in text:
        return UnsafeModelError(
            f"{path} contains a Lambda layer, whose Python code would run when it is opened",
            hint="allow_code=True opens it and runs that code; use it only for a file you trust",
        )
    if _is_of_keras_2(path):
        return ModelReadError(
            f"{path} was saved by {KERAS_2}, and Keras 3 cannot read it: {reason(error)}", hint=KERAS_2_HINT
        )
    if custom := _CUSTOM.search(text):
        return ModelReadError(
            f"{path} uses {(custom[1] or custom[2])!r}, which is not part of Keras, "
            "and its code is not in the file",
            hint="write a function that loads the model where that class is defined, "
            "and pass file.py:function",
        )
    if "No model config" in text:
        return ModelReadError(
            f"{path} holds weights only, not a model",
            hint="save the whole model with model.save('model.keras')",
        )
    if cut := _CUT.search(text):
        return ModelReadError(
            f"{path} is cut short: it has {cut[1]} of its {cut[2]} bytes", hint="save or copy the model again"
        )
    return ModelReadError(
        f"{path} cannot be read as a {kind} model: {reason(error)}",
        hint="the file may be cut short or damaged; save or copy the model again",
    )


@contextmanager
def _named_by_kind(path: Path, kind: str) -> Iterator[Path]:
    if path.suffix == kind:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="checkmate-model-") as folder:
        named = Path(folder, f"model{kind}")
        try:
            named.symlink_to(path.resolve())
        except OSError:  # no links on this file system
            shutil.copyfile(path, named)
        yield named


def _hdf5_training_config(path: Path) -> Any:
    try:
        with h5py.File(path, "r") as file:
            text = file.attrs.get("training_config")
            return None if text is None else json.loads(text)
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelReadError(
            f"the training configuration in {path} cannot be read", hint="save the model again"
        ) from error


def _restore_hdf5_optimizer(model: Any, path: Path) -> list[str]:
    model.optimizer.build(model.trainable_variables)
    try:
        with h5py.File(path, "r") as file:
            if "optimizer_weights" not in file:
                return []
            group = file["optimizer_weights"]
            values = [group[name][()] for name in group.attrs["weight_names"]]
    except (OSError, LookupError, ValueError, RuntimeError, TypeError):
        values = []
    # An optimizer that never took a step is saved without its slots. Saved values must fit; the rest is new.
    variables = model.optimizer.variables[: len(values)]
    if not values or [tuple(value.shape) for value in values] != [
        tuple(variable.shape) for variable in variables
    ]:
        return [f"the optimizer's state in the {HDF5} file does not fit and is not restored"]
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
    return []


_LAMBDA = "__lambda__"
_USUAL = {"loss": "mse", "optimizer": "adam"}
_DESERIALIZE_ERRORS = (ValueError, TypeError, LookupError, AttributeError, ImportError, RecursionError)


def compile_as_saved(model: Any, config: Any, path: Path, request: ModelRequest) -> list[str]:
    """Compile ``model`` by ``config`` as Keras wrote it; return notes. The request replaces what is unknown
    here."""
    if not isinstance(config, Mapping) or not config:
        return []
    notes: list[str] = []
    optimizer_config = config.get("optimizer", config.get("optimizer_config"))
    optimizer = _part("optimizer", optimizer_config, request.optimizer, keras.optimizers.get, path, notes)
    loss = _part("loss", config.get("loss"), request.loss, _loss, path, notes)
    model.compile(
        optimizer=keras.optimizers.get(optimizer or "rmsprop"),
        loss=loss,
        loss_weights=config.get("loss_weights") if loss is not request.loss else None,
        jit_compile=bool(config.get("jit_compile", False)),
    )
    return notes


def _part(
    what: str, config: Any, wanted: str | None, read: Callable[[Any], Any], path: Path, notes: list[str]
) -> Any:
    try:
        return read(config)
    except _DESERIALIZE_ERRORS as error:
        name = _name(config)
        if wanted is None:
            shown = f"{path}, saved by {KERAS_2}," if _is_of_keras_2(path) else str(path)
            raise ModelReadError(
                f"{shown} is compiled with the {what} {name!r}, which is not part of Keras, "
                "and its code is not in the file",
                hint=f'name another one, e.g. {what}="{_USUAL[what]}", or give a file.py:function that '
                "defines it",
            ) from error
        notes.append(f"the file's own {what} {name!r} is not part of Keras; {wanted} is used instead")
        return wanted


def _loss(config: Any) -> Any:
    """Return a loss, or a structure of them; ``.keras`` and ``.h5`` files describe them differently."""
    if isinstance(config, str):
        keras.losses.get(config)  # raises where it is unknown
        return config
    if isinstance(config, Mapping):
        if config.get("class_name") == "function":
            return _loss(config["config"])
        if config.get("class_name") == _LAMBDA:  # Keras takes it for a loss of that name
            raise ValueError("the code of a lambda")
        if "class_name" in config and "config" in config:
            return keras.losses.deserialize(dict(config))
        return {key: _loss(value) for key, value in config.items()}
    if isinstance(config, (list, tuple)):
        return [_loss(value) for value in config]
    return None


def _name(config: Any) -> str:
    """Return the name of the (first) unknown part, as a user would say it."""
    if isinstance(config, Mapping):
        if config.get("class_name") == "function":
            return str(config.get("config"))
        if "class_name" in config:
            return str(config["class_name"])
        config = list(config.values())
    if isinstance(config, (list, tuple)):
        return next((_name(part) for part in config if not _known(part)), "")
    return str(config)


def _known(config: Any) -> bool:
    try:
        _loss(config)
    except _DESERIALIZE_ERRORS:
        return False
    return True
