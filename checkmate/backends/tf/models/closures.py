"""Find the Keras layers that a function calls, without running it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Iterator
from itertools import islice
from types import CodeType, FunctionType, MethodType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.models.keras_graph import walk_layers

_PLAIN = (bool, int, float, complex, str, bytes, np.ndarray, np.generic, tf.Tensor)
_MOST_ITEMS = 10_000  # of one list or dictionary


def layers_of(function: Any) -> tuple[Any, ...]:
    """Return the layers and models that ``function`` refers to, each once.

    Those are its globals, its closure and the object that it is a method of, and what the functions and
    modules among these refer to. Layers inside layers are left out.
    """
    found: list[Any] = []
    seen: set[int] = set()
    stack = [function]
    while stack:
        item = stack.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, keras.layers.Layer):
            found.append(item)
        elif isinstance(item, tf.types.experimental.PolymorphicFunction):
            stack += [item.python_function, private.method_owner(item)[1]]
        elif isinstance(item, MethodType):
            stack += [item.__func__, item.__self__]
        elif isinstance(item, FunctionType):
            stack += _referred(item)
        elif isinstance(item, functools.partial):
            stack += [item.func, item.args, item.keywords]
        elif isinstance(item, dict):
            stack += _worth(item.values())
        elif isinstance(item, (list, tuple, set)):
            stack += _worth(item)
        elif isinstance(item, tf.Module) or type(item).__module__.startswith("checkmate_user_"):
            stack += getattr(item, "__dict__", {}).values()
    inside = {id(inner) for layer in found for inner in walk_layers(layer) if inner is not layer}
    return tuple(layer for layer in reversed(found) if id(layer) not in inside)


def _worth(items: Iterable[Any]) -> Iterator[Any]:
    """Yield the first of ``items`` that may lead to layers.

    A step may refer to a whole data set of numbers and texts.
    """
    return islice((item for item in items if not isinstance(item, _PLAIN)), _MOST_ITEMS)


def _referred(function: FunctionType) -> Iterator[Any]:
    """Yield the values that the code of ``function`` names."""
    inner = inspect.unwrap(function)
    if not isinstance(inner, FunctionType):  # such as a functools.partial that was wrapped
        yield inner
        return
    function = inner
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # it is not filled yet
            continue
    for name in _names(function.__code__):
        if name in function.__globals__:
            yield function.__globals__[name]
    yield from function.__defaults__ or ()


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
