"""Run ``file.py:function``, code of the user's own, which may do anything and raise anything."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

import keras

from checkmate.catalog.keras_2 import require_keras_3
from checkmate.catalog.model_names import require_code
from checkmate.errors import LoadError, ModelReadError, UsageError
from checkmate.models.keras_graph import reason
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
    and an example. A parameter ``batch_size`` gets it. The file runs as a module of its own and can import
    its neighbours. What it prints goes to standard error. ``__cause__`` of a ``ModelReadError`` is the code's
    own error."""
    spec = request.model
    file_name, _, function_name = spec.rpartition(":")
    path = Path(file_name)
    require_code(spec, allow_code=request.allow_code)
    with _importing_beside(path), contextlib.redirect_stdout(sys.stderr):
        try:
            named = _attribute(_run(path), function_name, file_name)
            if isinstance(named, steps):
                raise LoadError(
                    f"{spec} is a training step itself, and its example is not known",
                    hint="name a function that returns both: (step, example)",
                )
            require_keras_3(named, spec, LoadError)
            sized = _takes_batch_size(named)
            if isinstance(named, keras.Model):
                found: Any = named
            else:
                found = named(batch_size=request.batch_size) if sized else named()
        except LoadError:
            raise
        except (Exception, SystemExit) as error:  # foreign code may raise anything; report it with its place
            raise ModelReadError(
                f"{spec} failed with {type(error).__name__}: {_text(error)}{_error_place(error, path)}",
                hint="run it by itself first",
            ) from error
    return dataclasses.replace(_understood(found, spec), sized=sized)


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
        what = f"a pair of {_kind(subject)} and {_kind(example)}"
    else:
        what = f"a tuple of {len(found)}" if isinstance(found, tuple) else _kind(found)
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


def other_batch(request: ModelRequest, what: str) -> UsageError:
    function = request.model.rpartition(":")[2]
    return UsageError(
        f"{request.model} returns {what}, so its step has no batch of {request.batch_size}",
        hint=f"leave the batch size out, or let {function} take it: def {function}(batch_size), "
        "and make the example of that size",
    )


def _takes_batch_size(function: Any) -> bool:
    try:
        return "batch_size" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # such as a built-in one
        return False


def _run(path: Path) -> ModuleType:
    # The module gets a name of its own and is registered: dataclasses and Keras look up modules of classes.
    name = f"checkmate_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise LoadError(
            f"{path} is not a Python file",
            hint="name a function that returns a model or a step: file.py:function",
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _attribute(module: ModuleType, name: str, file_name: str) -> Any:
    found = getattr(module, name, None)
    if callable(found):
        return found
    if found is not None:
        raise LoadError(f"{name!r} in {file_name} is {_kind(found)}, not a function", hint="name a function")
    own = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    close = get_close_matches(name, own, n=1)
    listed = f"it has: {', '.join(sorted(own))}" if own else "it defines none"
    raise LoadError(
        f"{file_name} has no function {name!r}",
        hint=f"did you mean {file_name}:{close[0]}?" if close else listed,
    )


@contextlib.contextmanager
def _importing_beside(path: Path) -> Iterator[None]:
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        # The file may have changed the path itself; take out what was put in.
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)


def _error_place(error: BaseException, path: Path) -> str:
    """Return where in the user's file the error came from, if it passed through it."""
    here = str(path.resolve())
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f" ({Path(error.filename).name}, line {error.lineno})"
    frames = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in frames if frame.f_code.co_filename == here]
    return f" ({path.name}, line {lines[-1]})" if lines else ""


def _text(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return error.msg
    if isinstance(error, SystemExit):
        return f"it exited with {error.code!r}"
    return reason(error) if str(error).strip() else "no message"


def _kind(value: Any) -> str:
    name = type(value).__name__
    return "nothing" if value is None else f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
