"""Files read and written safely: strict JSON, gzip by the name's ending, written beside and then renamed."""

from __future__ import annotations

import ctypes
import glob
import gzip
import io
import json
import math
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from checkmate.errors import ExportError, FormatError

_Choice = TypeVar("_Choice", bound=StrEnum)
_LARGEST = 2**62  # no size, count or id is larger; keeps every sum inside int64
_LARGEST_FLOAT = 10**300
_MOST_UNPACKED, _MOST_TIMES = 16 * 2**20, 100  # bytes, or times the file; graphs take 9 to 16 times
_WORDS = ("true", "false", "null", "-", ".", "e-", "e+", "E-", "E+")  # and how a number may continue
_AGAIN = "write the file again, or fetch it again"


def read_json(path: Path) -> Any:
    """Return the JSON in ``path``, which may be gzip; NaN and infinities are refused.

    Raises:
        FormatError: the file is missing, unreadable, truncated or no JSON.
    """
    try:
        data = path.read_bytes()
        text = (_unpacked(path, data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8")
    except FileNotFoundError:
        raise FormatError(f"there is no file {path}", hint="check the path") from None
    except IsADirectoryError:
        raise FormatError(f"{path} is a folder, not a file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FormatError(
            f"{path} cannot be unpacked: it is cut off or damaged ({error})", hint=_AGAIN
        ) from error
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{path} is not a text file: byte {error.start} is not UTF-8", hint=_AGAIN
        ) from error
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror or error}", hint="check the path") from error
    try:
        found = json.loads(text, parse_constant=_refuse(path))
        _require_whole_characters(path, text, found)
        return found
    except json.JSONDecodeError as error:
        if not text.strip():
            raise FormatError(f"{path} is empty", hint=_AGAIN) from None
        rest = text[error.pos :].rstrip()  # nothing, or a truncated word
        if error.msg.startswith("Unterminated string") or any(word.startswith(rest) for word in _WORDS):
            raise FormatError(
                f"{path} is cut off: the JSON ends too early, in line {error.lineno}", hint=_AGAIN
            ) from None
        where = f"line {error.lineno}, column {error.colno}"
        raise FormatError(f"{path} is not valid JSON ({where}: {error.msg})", hint=_AGAIN) from None
    except RecursionError:
        raise FormatError(f"{path} is not valid JSON: nested too deeply") from None
    except ValueError as error:  # a number with more digits than Python accepts
        raise FormatError(f"{path} is not valid JSON: it has a number of thousands of digits") from error


def _unpacked(path: Path, data: bytes) -> bytes:
    """Return what is in a gzip file, unless it is far too much for the file's size."""
    most = max(_MOST_UNPACKED, _MOST_TIMES * len(data))
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        found = file.read(most + 1)
    if len(found) > most:
        raise FormatError(
            f"{path} unpacks to more than {_MOST_TIMES} times its size, which no file of this program does",
            hint="unpack it yourself if you trust it",
        )
    return found


def _require_whole_characters(path: Path, text: str, found: Any) -> None:
    if "\\ud" not in text and "\\uD" not in text:
        return
    try:
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    except (UnicodeEncodeError, RecursionError):
        raise FormatError(
            f"{path} has a text with half of a character (\\ud800 to \\udfff)", hint=_AGAIN
        ) from None


def _refuse(path: Path) -> Any:
    def refuse(constant: str) -> NoReturn:
        raise FormatError(
            f"{path} contains {constant}, which is not a number", hint="all numbers must be finite"
        )

    return refuse


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write ``data`` whole or not at all; gzip where ``path`` ends in ``.gz``."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, indent=None, separators=(",", ":"))
    body = text.encode("utf-8") + b"\n"
    write_bytes(path, gzip.compress(body, mtime=0) if path.name.endswith(".gz") else body)


def write_bytes(path: Path, body: bytes) -> None:
    """Write ``body`` whole or not at all; raise FormatError where it cannot be written."""
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
    """Raise FormatError if ``path`` cannot be written, before minutes of work."""
    parent = path.absolute().parent
    if not parent.is_dir():
        raise FormatError(
            f"cannot write {path}: there is no folder {parent}", hint="create it, or choose another place"
        )
    if path.is_dir():
        raise FormatError(f"cannot write {path}: it is a folder", hint="name a file")
    problem = _why_not_writable(path.name, parent)
    if problem:
        raise FormatError(f"cannot write {path}: {problem}", hint="choose another place")


def require_output_folder(directory: Path) -> None:
    """Raise ExportError if ``directory`` cannot be used, before minutes of work; leave nothing there."""
    hint = "choose another output folder"
    if directory.exists() and not directory.is_dir():
        raise ExportError(f"{directory} is a file, not a folder", hint=hint)
    if directory.is_dir() and any(directory.iterdir()) and not (directory / "schedule.json").exists():
        raise ExportError(f"{directory} is not empty and holds no earlier export", hint=hint)
    above = next(folder for folder in directory.absolute().parents if folder.exists())
    if not above.is_dir():
        raise ExportError(f"cannot write {directory}: {above} is a file, not a folder", hint=hint)
    for folder in (above, directory) if directory.is_dir() else (above,):
        problem = _why_not_writable(directory.name, folder)
        if problem:
            raise ExportError(f"cannot write {directory}: {problem}", hint=hint)


def _why_not_writable(name: str, folder: Path) -> str:
    # Tried, because permissions do not tell.
    try:
        with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder):
            return ""
    except OSError as error:
        return f"{error.strerror or error} in {folder}"


class Fields:
    """Fields of a JSON object; errors name the file and the field."""

    def __init__(self, path: Path, data: Any, where: str = "") -> None:
        if not isinstance(data, dict):
            raise FormatError(f"{path}: {where or 'the file'} must be a JSON object, not {_kind(data)}")
        self.path, self.data, self.where = path, data, where

    def name(self, field: str) -> str:
        return f"{self.where}.{field}" if self.where else field

    def get(self, field: str, kind: type | tuple[type, ...], default: Any = ...) -> Any:
        """Raise FormatError where the field is missing, and has no default, or is of another type."""
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
        if value < 0:
            raise FormatError(f"{self.path}: {self.name(field)} is negative ({value})")
        if value >= _LARGEST:
            raise FormatError(f"{self.path}: {self.name(field)} is too large ({_short(value)})")
        if value != int(value):
            raise FormatError(f"{self.path}: {self.name(field)} is {value}, not a whole number")
        return int(value)

    def number(self, field: str, default: Any = ...) -> Any:
        """A finite number of at least 0."""
        value = self.get(field, (int, float), default)
        if value is default or value is None:
            return value
        if not 0 <= value < math.inf or value > _LARGEST_FLOAT:
            raise FormatError(
                f"{self.path}: {self.name(field)} is {_short(value)}, not a finite number of at least 0"
            )
        return float(value)

    def ids(self, field: str, default: Any = ...) -> Any:
        value = self.get(field, list, default)
        if value is default:
            return value
        for entry in value:
            if isinstance(entry, bool) or not isinstance(entry, int) or abs(entry) >= _LARGEST:
                raise FormatError(f"{self.path}: {self.name(field)} contains {_short(entry)}, not an id")
        return tuple(value)

    def choice(self, field: str, kind: type[_Choice], default: _Choice | None = None) -> _Choice:
        """A member of an enumeration; the default, if any, where it is missing or null."""
        value = self.get(field, str, ... if default is None else None)
        if value is None and default is not None:
            return default
        try:
            return kind(value)
        except ValueError:
            known = ", ".join(str(entry.value) for entry in kind)
            raise FormatError(f"{self.path}: {self.name(field)} is {value!r}, not one of {known}") from None

    def bound(self, field: str) -> float:
        """Infinite for an explicit null. A missing field proves nothing."""
        return math.inf if self.data.get(field, ...) is None else float(self.number(field))

    def inner(self, field: str, default: Any = ...) -> Fields:
        return Fields(self.path, self.get(field, dict, default), self.name(field))

    def entries(self, field: str, default: Any = ...) -> list[Fields]:
        found = enumerate(self.get(field, list, default))
        return [Fields(self.path, entry, f"{self.name(field)}[{place}]") for place, entry in found]


_NAMES: dict[type, str] = {
    bool: "true or false",
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a number",
    float: "a number",
}


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    shown = f" ({_short(value)})" if isinstance(value, (str, int, float)) else ""
    return f"{_NAMES.get(type(value), type(value).__name__)}{shown}"


def _wanted(kind: type | tuple[type, ...]) -> str:
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return " or ".join(dict.fromkeys(_NAMES.get(k, k.__name__) for k in kinds))


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:37] + "…"


_EXPORTED = ("schedule.json", "export.json")  # one of them is in every export
_HERE, _EXCHANGE = -100, 2  # as linux/fcntl.h and linux/fs.h name them: AT_FDCWD, RENAME_EXCHANGE


@contextmanager
def staging(directory: Path) -> Iterator[Path]:
    """Yield a new folder beside ``directory``, removed at the end unless it was moved into place.

    Raises:
        ExportError: the parent cannot be written to, or ``directory`` is a file.
    """
    if directory.exists() and not directory.is_dir():
        raise ExportError(f"{directory} is a file, not a folder", hint="choose another output folder")
    parent = directory.absolute().parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        if directory.exists() and not os.access(directory, os.W_OK):
            raise PermissionError(13, "Permission denied")
        staged = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=parent))
    except OSError as error:
        raise ExportError(
            f"cannot write to {parent}: {error.strerror or error}", hint="choose another output folder"
        ) from error
    try:
        yield staged
    except OSError as error:
        raise ExportError(
            f"cannot write {directory}: {error.strerror or error}",
            hint="choose another output folder, or free some space",
        ) from error
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def staged_beside(directory: Path) -> set[Path]:
    """Return the folders of ``staging``. One whose process was killed is left."""
    unique = "?" * 8  # as tempfile.mkdtemp ends a name: so no folder of another name's export is among them
    return set(directory.absolute().parent.glob(f".{glob.escape(directory.name)}-{unique}"))


def put_in_place(staged: Path, directory: Path) -> None:
    """Move ``staged`` to ``directory``, atomically where the system can; an earlier export is removed last.

    Raises:
        ExportError: ``directory`` has other contents than an earlier export. OSError: it cannot be moved; the
        earlier export is where it was.
    """
    os.chmod(staged, 0o755)
    if not directory.exists():
        os.rename(staged, directory)
        return
    if any(directory.iterdir()) and not any((directory / name).exists() for name in _EXPORTED):
        raise ExportError(
            f"{directory} is not empty and holds no earlier export", hint="choose another output folder"
        )
    if _exchanged(staged, directory):
        return  # ``staged`` now is the earlier export, which ``staging`` removes
    old = Path(tempfile.mkdtemp(prefix=f".{directory.name}-old-", dir=directory.absolute().parent))
    os.rename(directory, old / "old")
    try:
        os.rename(staged, directory)
    except OSError:
        os.rename(old / "old", directory)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def _exchanged(one: Path, other: Path) -> bool:
    """Swap two folders atomically; return whether the system can do that."""
    try:
        exchange = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    names = os.fsencode(one), os.fsencode(other)
    return bool(exchange(_HERE, names[0], _HERE, names[1], _EXCHANGE) == 0)
