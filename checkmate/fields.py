"""The fields of a dataclass as JSON and back, told by their annotations.

Understood are ``str``, ``int``, ``float`` (also infinite), ``bool``, ``Path``, enums, ``X | None``,
``tuple[X, ...]``, ``tuple[X, Y]``, ``Mapping[str, Any]`` (any JSON object), and dataclasses of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from operator import index
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints


class FieldError(ValueError):
    """A JSON value is not what a field holds."""


@dataclass(frozen=True)
class Field:
    """How one field goes into JSON, and comes out of it. ``read`` raises ``FieldError``."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def write_fields(layout: Mapping[str, Field], value: Any) -> dict[str, Any]:
    """Return the fields of ``value`` as a JSON object."""
    return {name: field.write(getattr(value, name)) for name, field in layout.items()}


def read_fields(layout: Mapping[str, Field], data: Any) -> dict[str, Any]:
    """Return a dataclass's fields from a JSON object.

    The object must have exactly these fields.

    Raises:
        FieldError: a field is missing, unknown or of another type.
    """
    if not isinstance(data, dict):
        raise FieldError(f"{_short(data)} is not an object")
    if data.keys() != layout.keys():
        raise FieldError(f"missing or unknown fields: {', '.join(sorted(data.keys() ^ layout.keys()))}")
    found = {}
    for name, field in layout.items():
        try:
            found[name] = field.read(data[name])
        except FieldError as error:
            raise FieldError(f"{name}: {error}") from None
    return found


def layout_of(kind: type, *without: str) -> dict[str, Field]:
    """Return how each field of the dataclass ``kind`` is written and read.

    The fields ``without`` are left out.

    Raises:
        TypeError: a field is annotated with a type that is not understood.
    """
    hints = get_type_hints(kind)
    return {field.name: _field(hints[field.name]) for field in fields(kind) if field.name not in without}


def _field(hint: Any) -> Field:
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is UnionType and len(arguments) == 2 and arguments[1] is type(None):
        return _optional(_field(arguments[0]))
    if origin is tuple and arguments[1:] == (...,):
        return _list(_field(arguments[0]))
    if origin is tuple:
        return _row([_field(argument) for argument in arguments])
    if origin is Mapping:
        return Field(dict, _expect(dict, "an object"))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return Field(lambda value: value.value, _enum_reader(hint))
    if isinstance(hint, type) and is_dataclass(hint):
        return _nested(hint)
    raise TypeError(f"a message cannot hold {hint!r}")


def _expect(kind: type, words: str) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise FieldError(f"{_short(value)} is not {words}")
        return value

    return read


def _read_float(value: Any) -> float:
    if type(value) is not float and type(value) is not int:
        raise FieldError(f"{_short(value)} is not a number")
    return float(value)


def _enum_reader(kind: type[Enum]) -> Callable[[Any], Any]:
    def read(value: Any) -> Enum:
        try:
            return kind(value)
        except ValueError:
            raise FieldError(f"{_short(value)} is not a {kind.__name__}") from None

    return read


def _optional(inner: Field) -> Field:
    return Field(
        lambda value: None if value is None else inner.write(value),
        lambda value: None if value is None else inner.read(value),
    )


def _list(inner: Field) -> Field:
    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise FieldError(f"{_short(value)} is not a list")
        return tuple(inner.read(entry) for entry in value)

    return Field(lambda value: [inner.write(entry) for entry in value], read)


def _row(columns: list[Field]) -> Field:
    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) != len(columns):
            raise FieldError(f"{_short(value)} is not a list of {len(columns)}")
        return tuple(column.read(entry) for column, entry in zip(columns, value, strict=True))

    return Field(
        lambda value: [column.write(entry) for column, entry in zip(columns, value, strict=True)], read
    )


def _nested(kind: type) -> Field:
    layout = layout_of(kind)

    def read(value: Any) -> Any:
        found = read_fields(layout, value)
        try:
            return kind(**found)
        except ValueError as error:  # what the class itself asks of its fields
            raise FieldError(str(error)) from error

    return Field(lambda value: write_fields(layout, value), read)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "…"


_READ_TEXT = _expect(str, "a text")
_PLAIN: dict[Any, Field] = {
    str: Field(str, _READ_TEXT),
    int: Field(index, _expect(int, "a whole number")),  # numpy's whole numbers too; no fraction is cut off
    float: Field(float, _read_float),
    bool: Field(bool, _expect(bool, "true or false")),
    Path: Field(str, lambda value: Path(_READ_TEXT(value))),
}
