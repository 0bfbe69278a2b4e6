"""Run ``file.py:function``, code of the user's own.

It may do anything and raise anything.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

import keras

from checkmate.catalog.model_names import require_code
from checkmate.errors import LoadError, ModelReadError
from checkmate.tf.error_text import reason


def model_from_code(spec: str, *, allow_code: bool) -> Any:
    """Return the model that ``file.py:function`` returns or names.

    It may be compiled or not. The file runs as a module of its own and can import its neighbours. What it
    prints goes to standard error.

    Raises:
        LoadError: the file or function is missing, or gives no model.
        UnsafeModelError: running code is not allowed.
        ModelReadError: the code failed; the message has the file and the line, ``__cause__`` the error
            itself.
    """
    file_name, _, function_name = spec.rpartition(":")
    path = Path(file_name)
    require_code(spec, allow_code=allow_code)
    with _importing_beside(path), contextlib.redirect_stdout(sys.stderr):
        try:
            found = _attribute(_run(path), function_name, file_name)
            model = found if isinstance(found, keras.Model) else found()
        except LoadError:
            raise
        except (Exception, SystemExit) as error:  # foreign code may raise anything; report it with its place
            raise ModelReadError(
                f"{spec} failed with {type(error).__name__}: {_text(error)}{_error_place(error, path)}",
                hint="run it by itself first; --debug shows the whole traceback",
            ) from error
    if not isinstance(model, keras.Model):
        raise LoadError(
            f"{spec} returned {_kind(model)}, not a keras.Model",
            hint="return the model itself, compiled or not",
        )
    return model


def _run(path: Path) -> ModuleType:
    # The module gets a name of its own and is registered: dataclasses and Keras look up modules of classes.
    name = f"checkmate_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise LoadError(
            f"{path} is not a Python file", hint="name a function that returns a model: file.py:function"
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
    """Let the file import its neighbours, as ``python file.py`` would."""
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        # The file may have changed the path itself; take out what was put in.
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)


def _error_place(error: BaseException, path: Path) -> str:
    """Return where in the user's file the error came from.

    For a syntax error it may be in another file. Empty where the error never passed through this file.
    """
    here = str(path.resolve())
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f" ({Path(error.filename).name}, line {error.lineno})"
    trace, line = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == here:
            line = trace.tb_lineno
        trace = trace.tb_next
    return "" if line is None else f" ({path.name}, line {line})"


def _text(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return error.msg
    if isinstance(error, SystemExit):
        return f"it exited with {error.code!r}"
    return reason(error) if str(error).strip() else "no message"


def _kind(value: Any) -> str:
    """Return the type of ``value`` with its article, such as "a list"."""
    name = type(value).__name__
    return "nothing" if value is None else f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
