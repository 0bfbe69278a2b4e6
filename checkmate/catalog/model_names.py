"""Check what a request names without importing TensorFlow, which takes seconds."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from checkmate.catalog.file_kind import model_file_kind
from checkmate.catalog.samples import SAMPLES, find_sample
from checkmate.errors import LoadError, UnsafeModelError, UsageError
from checkmate.request import ModelRequest

APPLICATIONS = "keras.applications."
_MOST_NAMED = 4  # functions, in a hint


def require_named(request: ModelRequest) -> None:
    """Refuse a request that cannot be met, as far as names tell."""
    _require_sizes(request)
    spec = request.model
    if not is_built_here(spec):
        _require_file(request)
    elif spec.startswith(APPLICATIONS):
        known = _application_names()
        if known:
            require_application(spec.removeprefix(APPLICATIONS), known)
    elif find_sample(spec) is None:
        require_code(spec, allow_code=request.allow_code)


def is_built_here(spec: str) -> bool:
    """Tell whether ``spec`` is code to build a model by, not a file. A sample's name wins over a file called
    the same."""
    return spec.startswith(APPLICATIONS) or find_sample(spec) is not None or ".py:" in spec


def is_torch_code(spec: str) -> bool:
    """Tell whether ``file.py:function`` is PyTorch's: its file imports it, and neither Keras nor JAX."""
    file_name, colon, _ = spec.rpartition(".py:")
    if not colon:
        return False
    try:
        tree = ast.parse(Path(f"{file_name}.py").read_bytes())
    except (OSError, SyntaxError, ValueError):
        return False
    names = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return "torch" in names and names.isdisjoint({"keras", "tensorflow", "jax"})


def require_application(name: str, known: Sequence[str]) -> None:
    if name in known:
        return
    by_lower = {each.lower(): each for each in known}
    close = get_close_matches(name.rsplit(".", 1)[-1].lower(), by_lower, n=1)
    hint = f"did you mean {APPLICATIONS}{by_lower[close[0]]}?" if close else f"there are: {', '.join(known)}"
    raise LoadError(f"keras.applications has no model {name!r}", hint=hint)


def require_code(spec: str, *, allow_code: bool) -> None:
    file_name = spec.rpartition(":")[0]
    if not Path(file_name).is_file():
        raise LoadError(
            f"there is no file {file_name}",
            hint="name a function that returns a model or a step: file.py:function",
        )
    if not allow_code:
        raise UnsafeModelError(
            f"{spec} would run the code in {file_name}, which may do anything",
            hint="allow_code=True runs it; use it only for a file you trust",
        )


def _require_sizes(request: ModelRequest) -> None:
    if request.batch_size < 1:
        raise UsageError(f"the batch size is {request.batch_size}", hint="use 1 or more")
    if request.input_shape is not None and any(size < 1 for size in request.input_shape):
        shown = ",".join(map(str, request.input_shape))
        raise UsageError(f"the input shape {shown} has a size below 1", hint='e.g. input_shape="224,224,3"')


def _require_file(request: ModelRequest) -> None:
    if request.mixed_precision is not None:
        raise UsageError(
            f"{request.mixed_precision} cannot change a saved model, whose layers have dtype policies of "
            "their own",
            hint="set the policy where the model is built, and save it again",
        )
    path = Path(request.model)
    if not path.exists():
        raise LoadError(f"there is no file or sample {request.model!r}", hint=_suggest(request.model))
    if path.suffix == ".py":
        raise LoadError(
            f"{request.model} is Python code; name the function in it that returns a model or a step",
            hint=_functions_hint(request.model),
        )
    model_file_kind(path)


def _functions_hint(file_name: str) -> str:
    try:
        body = ast.parse(Path(file_name).read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        body = []
    found = [each.name for each in body if isinstance(each, ast.FunctionDef) and _needs_nothing(each)]
    named = [f"{file_name}:{name}" for name in found if not name.startswith("_")]
    return f"one of: {', '.join(named[:_MOST_NAMED])}" if named else f"write {file_name}:function"


def _needs_nothing(function: ast.FunctionDef) -> bool:
    wanted = function.args
    positional = [argument.arg for argument in (*wanted.posonlyargs, *wanted.args)]
    needed = positional[: len(positional) - len(wanted.defaults)]
    by_name = zip(wanted.kwonlyargs, wanted.kw_defaults, strict=True)
    needed += [argument.arg for argument, default in by_name if default is None]
    return set(needed) <= {"batch_size"}


def _suggest(spec: str) -> str:
    names = [sample.name for sample in SAMPLES]
    applications = {name.lower(): name for name in _application_names()}
    if spec.lower() in applications:
        return f"did you mean {APPLICATIONS}{applications[spec.lower()]}?"
    close = get_close_matches(spec.lower(), names, n=1)
    if close:
        return f"did you mean the sample {close[0]}?"
    if spec.endswith(".py"):
        return f"name the function too: {spec}:function"
    return f"samples: {', '.join(names)}; or keras.applications.NAME, a .keras or .h5 file, file.py:function"


def _application_names() -> list[str]:
    """Read the architectures from Keras's source, without an import; [] if the source has another form."""
    keras = importlib.util.find_spec("keras")
    if keras is None or keras.origin is None:
        return []
    try:
        listed = ast.parse(
            (Path(keras.origin).parent / "applications" / "__init__.py").read_text(encoding="utf-8")
        )
    except (OSError, SyntaxError, ValueError):
        return []
    imported = [entry for node in listed.body if isinstance(node, ast.ImportFrom) for entry in node.names]
    return [name for name in (entry.asname or entry.name for entry in imported) if name[:1].isupper()]
