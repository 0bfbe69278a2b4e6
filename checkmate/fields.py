"""The fields of a dataclass as JSON and back, told by their annotations.

Understood are ``str``, ``int``, ``float`` (also infinite), ``bool``, ``Path``, enums, ``X | None``,
``tuple[X, ...]``, ``tuple[X, Y]``, ``Mapping[str, Any]`` (any JSON object), and dataclasses of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from operator import index
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

# Of numpy's numbers too; no fraction of a whole number is cut off.
_WRITTEN: Mapping[Any, Any] = {str: str, int: index, float: float, bool: bool, Path: str}
_WORDS: Mapping[Any, str] = {str: "a text", int: "a whole number", bool: "true or false"}


class FieldError(ValueError):
    """A JSON value is not what a field holds."""


@cache
def hints_of(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def write_fields(hints: Mapping[str, Any], value: Any) -> dict[str, Any]:
    return {name: _written(hint, getattr(value, name)) for name, hint in hints.items()}


def read_fields(hints: Mapping[str, Any], data: Any) -> dict[str, Any]:
    """A dataclass's fields from a JSON object of exactly these; else ``FieldError``."""
    _expect(isinstance(data, dict), data, "an object")
    if data.keys() != hints.keys():
        raise FieldError(f"missing or unknown fields: {', '.join(sorted(data.keys() ^ hints.keys()))}")
    found = {}
    for name, hint in hints.items():
        try:
            found[name] = _read(hint, data[name])
        except FieldError as error:
            raise FieldError(f"{name}: {error}") from None
    return found


def _written(hint: Any, value: Any) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _WRITTEN:
        return _WRITTEN[hint](value)
    if origin is UnionType:
        return None if value is None else _written(arguments[0], value)
    if origin is tuple and arguments[1:] == (...,):
        return [_written(arguments[0], entry) for entry in value]
    if origin is tuple:
        return [_written(column, entry) for column, entry in zip(arguments, value, strict=True)]
    if origin is Mapping:
        return dict(value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return value.value
    if not is_dataclass(hint):
        raise TypeError(f"a message cannot hold {hint!r}")
    kind: Any = hint
    return write_fields(hints_of(kind), value)


def _read(hint: Any, data: Any) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _WORDS:
        _expect(type(data) is hint, data, _WORDS[hint])
        return data
    if hint is float:
        _expect(type(data) in (float, int), data, "a number")
        return float(data)
    if hint is Path:
        return Path(_read(str, data))
    if origin is UnionType:
        return None if data is None else _read(arguments[0], data)
    if origin is tuple:
        return _read_list(arguments, data)
    if origin is Mapping:
        _expect(isinstance(data, dict), data, "an object")
        return data
    try:
        return hint(data) if issubclass(hint, Enum) else hint(**read_fields(hints_of(hint), data))
    except FieldError:
        raise
    except ValueError as error:  # no such value, or what the class itself asks of its fields
        said = f"{_short(data)} is not a {hint.__name__}" if issubclass(hint, Enum) else str(error)
        raise FieldError(said) from error


def _read_list(columns: tuple[Any, ...], data: Any) -> tuple[Any, ...]:
    _expect(isinstance(data, list), data, "a list")
    if columns[1:] == (...,):
        return tuple(_read(columns[0], entry) for entry in data)
    _expect(len(data) == len(columns), data, f"a list of {len(columns)}")
    return tuple(_read(column, entry) for column, entry in zip(columns, data, strict=True))


def _expect(right: bool, value: Any, words: str) -> None:
    if not right:
        raise FieldError(f"{_short(value)} is not {words}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "…"
