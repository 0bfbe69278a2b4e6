"""Tell what a model file is by its content; its name is ignored."""

from __future__ import annotations

import json
import zipfile
import zlib
from pathlib import Path

from checkmate.catalog.keras_2 import KERAS_2, KERAS_2_HINT
from checkmate.errors import ModelReadError, UnsupportedFormatError

KERAS, HDF5 = ".keras", ".h5"
MOST_UNPACKED, MOST_TIMES = 64 * 2**20, 100  # bytes, or times the file

_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_TORCH = "a PyTorch file"
_TORCH_HINT = "PyTorch's models are not supported; use a Keras model, on TensorFlow or JAX"
_SAVE_HINT = "save it with model.save('model.keras')"
_AGAIN_HINT = "save or copy the model again"
# (offset, magic bytes, what the file is, hint)
_FOREIGN = (
    (4, b"TFL3", "a TensorFlow Lite file, which cannot be trained", "use the Keras model it was made from"),
    (0, b"GGUF", "a GGUF file", "use the Keras model"),
    (0, b"\x1f\x8b", "gzip data", "unpack it first; a graph file goes to checkmate info, solve or explore"),
    (
        0,
        b"{",
        "JSON text",
        "a graph file goes to checkmate info, solve or explore; a model is a .keras or .h5 file",
    ),
    (0, b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.", _TORCH, _TORCH_HINT),  # before PyTorch 1.6
    (0, b"\x80", "a Python pickle, which is never opened", _SAVE_HINT),
)


def begins_as_model(path: Path) -> bool:
    """Return whether the file begins as models, perhaps of other libraries, do, and as no graph does."""
    try:
        with path.open("rb") as file:
            return file.read(8).startswith((_HDF5_SIGNATURE, b"PK", b"\x80"))
    except OSError:
        return False


def model_file_kind(path: Path) -> str:
    """Return ``.keras`` (a zip archive with the ``config.json`` of a Keras model) or ``.h5``; raise for other
    content."""
    if (path / "keras_metadata.pb").is_file():
        raise UnsupportedFormatError(f"{path} is a SavedModel of {KERAS_2}", hint=KERAS_2_HINT)
    if path.is_dir():
        raise UnsupportedFormatError(
            f"{path} is a folder, not a .keras or .h5 file; a SavedModel has no Keras layers to train",
            hint="save the Keras model with model.save('model.keras')",
        )
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except OSError as error:
        raise ModelReadError(
            f"{path} cannot be opened: {error.strerror}", hint="check the file's rights"
        ) from error
    if start.startswith(_HDF5_SIGNATURE):
        return HDF5
    if start.startswith(b"PK"):
        _require_keras_archive(path)
        return KERAS
    if not start:
        raise ModelReadError(f"{path} is empty", hint=_AGAIN_HINT)
    for offset, magic, what, hint in _FOREIGN:
        if start[offset:].startswith(magic):
            raise UnsupportedFormatError(f"{path} is {what}, not a .keras or .h5 model", hint=hint)
    raise UnsupportedFormatError(f"{path} is neither a .keras nor an .h5 model file", hint=_SAVE_HINT)


def keras_config(path: Path) -> dict[str, object]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if "config.json" not in names:
                what = _archive(names)
                hint = _TORCH_HINT if what == _TORCH else _SAVE_HINT
                raise UnsupportedFormatError(f"{path} is {what}, not a .keras model", hint=hint)
            _require_plain_archive(path, archive)
            config = json.loads(archive.read("config.json"))
    except RecursionError as error:
        raise ModelReadError(f"the config.json in {path} is nested too deeply", hint=_AGAIN_HINT) from error
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError) as error:
        raise ModelReadError(
            f"{path} is a zip archive that is cut short or damaged, so no .keras model can be read from it",
            hint=_AGAIN_HINT,
        ) from error
    except ValueError as error:
        raise ModelReadError(f"the config.json in {path} is not valid JSON", hint=_AGAIN_HINT) from error
    if not isinstance(config, dict) or "class_name" not in config:
        raise UnsupportedFormatError(f"the config.json in {path} describes no Keras model", hint=_SAVE_HINT)
    return config


def _require_keras_archive(path: Path) -> None:
    keras_config(path)
    with zipfile.ZipFile(path) as archive:
        if not any(name.startswith("model.weights") for name in archive.namelist()):
            raise ModelReadError(f"{path} is a .keras archive without weights", hint=_AGAIN_HINT)


def _require_plain_archive(path: Path, archive: zipfile.ZipFile) -> None:
    """Raise where a part would be unpacked outside the folder, or all are far larger than the archive."""
    for part in archive.infolist():
        if part.filename.startswith(("/", "\\")) or ".." in part.filename.replace("\\", "/").split("/"):
            raise ModelReadError(
                f"{path} holds a file that would be unpacked elsewhere ({part.filename!r})", hint=_AGAIN_HINT
            )
    unpacked = sum(part.file_size for part in archive.infolist())
    if unpacked > max(MOST_UNPACKED, MOST_TIMES * path.stat().st_size):
        raise ModelReadError(
            f"{path} unpacks to {unpacked:,} bytes, more than {MOST_TIMES} times its size", hint=_AGAIN_HINT
        )


def _archive(names: list[str]) -> str:
    if any(name.endswith("data.pkl") for name in names):
        return _TORCH
    return (
        "a zip archive without config.json "
        f"({', '.join(names[:3]) or 'empty'}{', …' if len(names) > 3 else ''})"
    )
