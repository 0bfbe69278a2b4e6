"""Reading and writing files safely: gzip by ending, strict JSON, a temporary file and a rename."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from checkmate.errors import FormatError


def read_json(path: Path) -> Any:
    """The JSON in ``path`` (gzip where it ends in ``.gz``); NaN and infinities are refused.

    Raises:
        FormatError: the file is missing, unreadable, cut off or no JSON; the message names it.
    """
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8")
    except FileNotFoundError:
        raise FormatError(f"there is no file {path}", hint="check the path") from None
    except IsADirectoryError:
        raise FormatError(f"{path} is a folder, not a file") from None
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise FormatError(f"{path} cannot be read: {error}", hint="the file may be cut off; write it again") from error
    try:
        return json.loads(text, parse_constant=_refuse(path))
    except json.JSONDecodeError as error:
        raise FormatError(
            f"{path} is not valid JSON (line {error.lineno}: {error.msg})",
            hint="the file may be cut off; write it again",
        ) from None
    except RecursionError:
        raise FormatError(f"{path} is not valid JSON: nested too deeply") from None


def _refuse(path: Path) -> Any:
    def refuse(constant: str) -> NoReturn:
        raise FormatError(f"{path} contains {constant}, which is not a number", hint="all numbers must be finite")

    return refuse


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write ``data`` whole or not at all; gzip where ``path`` ends in ``.gz``.

    Raises:
        FormatError: the folder cannot be written to.
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, indent=None, separators=(",", ":"))
    body = text.encode("utf-8") + b"\n"
    write_bytes(path, gzip.compress(body, mtime=0) if path.name.endswith(".gz") else body)


def write_bytes(path: Path, body: bytes) -> None:
    """Write ``body`` to a temporary file beside ``path``, then rename it.

    Raises:
        FormatError: the folder cannot be written to.
    """
    temporary: str | None = None
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.absolute().parent)
        with os.fdopen(descriptor, "wb") as file:
            file.write(body)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
        temporary = None
    except OSError as error:
        raise FormatError(
            f"cannot write {path}: {error.strerror or error}", hint="choose another place, or free some space"
        ) from error
    finally:
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)


def require_writable(path: Path) -> None:
    """Raise now rather than after minutes of work.

    Raises:
        FormatError: ``path`` cannot be written.
    """
    parent = path.absolute().parent
    if not parent.is_dir():
        raise FormatError(
            f"cannot write {path}: there is no folder {parent}", hint="create it, or choose another place"
        )
    if path.is_dir():
        raise FormatError(f"cannot write {path}: it is a folder", hint="name a file")
    if not os.access(parent, os.W_OK):
        raise FormatError(f"cannot write {path}: no permission in {parent}", hint="choose another place")


class Fields:
    """Reads fields of a JSON object with errors that name the file and the field."""

    def __init__(self, path: Path, data: Any, where: str = "") -> None:
        if not isinstance(data, dict):
            raise FormatError(f"{path}: {where or 'the file'} must be a JSON object, not {_kind(data)}")
        self.path, self.data, self.where = path, data, where

    def name(self, field: str) -> str:
        """The field's full name."""
        return f"{self.where}.{field}" if self.where else field

    def get(self, field: str, kind: type | tuple[type, ...], default: Any = ...) -> Any:
        """The field, of the wanted type.

        Raises:
            FormatError: it is missing (and has no default) or of another type.
        """
        value = self.data.get(field, default)
        if value is ...:
            raise FormatError(f"{self.path}: {self.name(field)} is missing")
        if value is default or (value is None and default is None):
            return value
        wrong_bool = isinstance(value, bool) and kind is not bool
        if wrong_bool or not isinstance(value, kind):
            raise FormatError(f"{self.path}: {self.name(field)} is {_kind(value)}, not {_wanted(kind)}")
        return value

    def whole(self, field: str, default: Any = ...) -> Any:
        """A whole number of at least 0."""
        value = self.get(field, (int, float), default)
        if value is default or value is None:
            return value
        if value != int(value):
            raise FormatError(f"{self.path}: {self.name(field)} is {value}, not a whole number")
        if value < 0:
            raise FormatError(f"{self.path}: {self.name(field)} is negative ({value})")
        return int(value)

    def number(self, field: str, default: Any = ...) -> Any:
        """A finite number of at least 0."""
        value = self.get(field, (int, float), default)
        if value is default or value is None:
            return value
        if not np.isfinite(value) or value < 0:
            raise FormatError(f"{self.path}: {self.name(field)} is {value}, not a finite number of at least 0")
        return float(value)

    def ids(self, field: str, default: Any = ...) -> Any:
        """A list of whole numbers."""
        value = self.get(field, list, default)
        if value is default:
            return value
        for entry in value:
            if isinstance(entry, bool) or not isinstance(entry, int):
                raise FormatError(f"{self.path}: {self.name(field)} contains {entry!r}, not an id")
        return tuple(value)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {
        bool: "true or false",
        dict: "an object",
        list: "a list",
        str: "a text",
        int: "a number",
        float: "a number",
    }
    return f"{names.get(type(value), type(value).__name__)}" + (
        f" ({value!r})" if isinstance(value, (str, int)) else ""
    )


def _wanted(kind: type | tuple[type, ...]) -> str:
    names = {
        bool: "true or false",
        dict: "an object",
        list: "a list",
        str: "a text",
        int: "a number",
        float: "a number",
    }
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return " or ".join(dict.fromkeys(names.get(k, k.__name__) for k in kinds))
