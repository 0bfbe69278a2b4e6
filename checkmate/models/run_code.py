"""Run ``file.py:function``, code of the user's own, which may do anything and raise anything."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from checkmate.catalog.model_names import require_code
from checkmate.errors import LoadError, ModelReadError
from checkmate.models.error_text import reason
from checkmate.request import ModelRequest


def run_function(
    request: ModelRequest, already: Callable[[Any], Any | None] = lambda named: None
) -> tuple[Any, bool]:
    """Return what ``file.py:function`` returns, and whether it took the batch size. Where ``already`` returns
    something of what has that name, that is taken and nothing is called. The file runs as a module of its own
    and can import its neighbours. What it prints goes to standard error. ``__cause__`` of a
    ``ModelReadError`` is the code's own error.
    """
    spec = request.model
    file_name, _, function_name = spec.rpartition(":")
    path = Path(file_name)
    require_code(spec, allow_code=request.allow_code)
    with _importing_beside(path), contextlib.redirect_stdout(sys.stderr):
        try:
            named = _attribute(_run(path), function_name, file_name)
            if (found := already(named)) is not None:
                return found, False
            sized = _takes_batch_size(named)
            return (named(batch_size=request.batch_size) if sized else named()), sized
        except LoadError:
            raise
        except (Exception, SystemExit) as error:  # foreign code may raise anything; report it with its place
            raise ModelReadError(
                f"{spec} failed with {type(error).__name__}: {_text(error)}{_error_place(error, path)}",
                hint="run it by itself first",
            ) from error


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
        what = f"{name!r} in {file_name} is {kind_of(found)}"
        raise LoadError(f"{what}, not a function", hint="name a function")
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


def kind_of(value: Any) -> str:
    name = type(value).__name__
    return "nothing" if value is None else f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
