"""Understand what a user's function returns: a Keras model, or a training step with an example."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import keras

from checkmate.catalog.keras_2 import require_keras_3
from checkmate.errors import CheckmateError, LoadError, TraceError, UsageError
from checkmate.models.error_text import first_line
from checkmate.models.run_code import kind_of, run_function
from checkmate.request import ModelRequest

_PAIR = "return both: (step, example), where example is a tuple of the step's arguments"


@dataclass(frozen=True, eq=False)
class FromCode:
    """``subject``: a ``keras.Model``, or a function of tensors that is a training step. ``example``: a batch
    as its step takes it, where one came with it; for a function a tuple of its arguments, or its only one.
    ``sized``: the function was called with the batch size, so another call gives another one."""

    subject: Any
    example: Any = None
    has_example: bool = False
    sized: bool = False


def from_code(request: ModelRequest, steps: tuple[type, ...]) -> FromCode:
    """Return what ``file.py:function`` returns or names: a model, or a pair of a training step (or a model)
    and an example. Errors are those of ``run_function`` and a LoadError."""

    def called(named: Any) -> Any:
        if isinstance(named, steps):
            raise LoadError(
                f"{request.model} is a training step itself, and its example is not known",
                hint="name a function that returns both: (step, example)",
            )
        require_keras_3(named, request.model, LoadError)
        return named if isinstance(named, keras.Model) else None

    found, sized = run_function(request, called)
    return dataclasses.replace(_understood(found, request.model), sized=sized)


def _understood(found: Any, spec: str) -> FromCode:
    if isinstance(found, keras.Model):
        return FromCode(found)
    require_keras_3(found[0] if isinstance(found, tuple) and found else found, spec, LoadError)
    if _is_step(found):
        raise LoadError(f"{spec} returned a training step without an example of its arguments", hint=_PAIR)
    if isinstance(found, tuple) and len(found) == 2:
        subject, example = found
        if isinstance(subject, keras.Model) or _is_step(subject):
            if example is None:
                raise LoadError(f"{spec} returned None as the example of its step", hint=_PAIR)
            return FromCode(subject, example, has_example=True)
        what = f"a pair of {kind_of(subject)} and {kind_of(example)}"
    else:
        what = f"a tuple of {len(found)}" if isinstance(found, tuple) else kind_of(found)
    raise LoadError(
        f"{spec} returned {what}, not a keras.Model or a training step with its example",
        hint="return the model itself, compiled or not, or (step, example)",
    )


def _is_step(found: Any) -> bool:
    return callable(found) and not isinstance(found, (type, keras.layers.Layer))


def require_no_options(request: ModelRequest, *, shape: bool = True) -> None:
    """Raise if an option would change what a step brings of its own; ``shape``: its shape too."""
    given = {"loss": request.loss, "optimizer": request.optimizer}
    if shape:
        given["input shape"] = (
            None if request.input_shape is None else ",".join(map(str, request.input_shape))
        )
    for what, value in given.items():
        if value is not None:
            raise UsageError(
                f"the {what} {value} cannot change the step of {request.model}, which brings its own",
                hint="change it where the step is made",
            )


def require_compiled(model: Any, request: ModelRequest) -> None:
    if not getattr(model, "compiled", False):
        raise UsageError(
            f"the model of {request.model} is not compiled, so it has no training step to trace",
            hint="call its compile(...) before it is returned",
        )


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Raise a ``TraceError`` for whatever the user's step ``name`` raises while it is traced."""
    try:
        yield
    except CheckmateError:
        raise
    except Exception as error:  # the step is the user's code, which may raise what it likes
        raise TraceError(
            f"the training step of {name!r} could not be traced: {first_line(error)}",
            hint="run one step without checkmate first",
        ) from error


def other_batch(request: ModelRequest, what: str) -> UsageError:
    function = request.model.rpartition(":")[2]
    return UsageError(
        f"{request.model} returns {what}, so its step has no batch of {request.batch_size}",
        hint=f"leave the batch size out, or let {function} take it: def {function}(batch_size), "
        "and make the example of that size",
    )
