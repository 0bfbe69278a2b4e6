"""Make and read model files, for a process that tries them.

An archive keeps a sum of each part, so most of its changes are found out at once. The parts of a ``.keras``
file are tried by themselves too, each in an archive whose other parts are whole.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

from checkmate.backends.tf.models.load import load_model
from checkmate.request import ModelRequest
from tests.tf.conftest import dense_model

KINDS = {"archive": ".keras", "config.json": ".keras", "model.weights.h5": ".keras", "hdf5": ".h5"}


def _saved(folder: Path, ending: str) -> list[Path]:
    paths = []
    for number, options in enumerate(({}, {"optimizer": "adam", "loss": "mse"})):
        path = folder / f"sample{number}{ending}"
        dense_model(**options).save(path)
        paths.append(path)
    return paths


def opened(kind: str, folder: Path) -> tuple[Callable[[bytes], object], list[bytes]]:
    """Return what loads a model from bytes, and samples of them. It works in the working folder."""
    ending = KINDS[kind]
    paths = _saved(folder, ending)
    if kind in ("archive", "hdf5"):
        return lambda data: _load(ending, data), [path.read_bytes() for path in paths]
    with zipfile.ZipFile(paths[1]) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    return lambda data: _load(ending, _packed({**parts, kind: data})), [parts[kind]]


def _load(ending: str, data: bytes) -> object:
    path = Path(f"m{ending}")
    path.write_bytes(data)
    return load_model(ModelRequest(str(path)))


def _packed(parts: dict[str, bytes]) -> bytes:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return body.getvalue()
