"""Read the Python functions' arguments (models, graphs, schedules, budgets) as the command line does."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from numbers import Integral
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack

from checkmate.catalog.keras_2 import require_keras_3
from checkmate.errors import LoadError, ModelReadError, UnsafeModelError, UsageError
from checkmate.formats import read_schedule
from checkmate.graphs.by_name import read_or_build
from checkmate.ir import Graph, SolveResult
from checkmate.request import ModelRequest, OnMiss, Target, parse_shape
from checkmate.units import Budget, parse_budget, parse_bytes, parse_overhead, plural

ModelLike = Any  # a keras.Model, str, Path or ModelRequest; Keras is not imported here
GraphLike = Graph | str | Path
ResultLike = SolveResult | str | Path
BudgetLike = Budget | str | int

_LEAST_BUDGET = 2**10  # bytes; who writes less means a share or another unit
_LARGE_STEP = 2**20  # bytes
_BUDGET_HINT = 'for example budget="6GiB"'
_MODEL_HINT = (
    'give a Keras model, a name like "unet" or "keras.applications.ResNet50", the path of a .keras or .h5 '
    'file, "file.py:function", or a checkmate.ModelRequest'
)
_GRAPH_HINT = "give a graph, its file, or a bundled graph's name; checkmate.profile makes one of a model"
_CODE_HINT = 'put a function that returns the model into a file, and give "file.py:function", allow_code=True'
Value = TypeVar("Value")
Member = TypeVar("Member", bound=StrEnum)


class TraceOptions(TypedDict, total=False):
    """How a model is traced, as the fields of ``ModelRequest`` say. None leaves what the model or the request
    says.
    """

    loss: str | None
    optimizer: str | None
    input_shape: str | Sequence[int] | None
    mixed_precision: str | None
    device: str | None
    allow_code: bool | None


class StepOptions(TraceOptions, total=False):
    batch_size: int | None
    target: Target | str | None


def request_of(model: str | Path | ModelRequest, **step: Unpack[StepOptions]) -> ModelRequest:
    """Return the request for what ``model`` names, with the options given."""
    if isinstance(model, ModelRequest):
        request = model
    elif isinstance(model, str | Path):
        request = ModelRequest(str(model))
    else:
        require_keras_3(model)
        raise _wrong_type("model", model, _MODEL_HINT)
    given: dict[str, Any] = {name: value for name, value in step.items() if value is not None}
    for name in ("loss", "optimizer", "mixed_precision", "device"):
        if not isinstance(given.get(name, ""), str):
            raise _wrong_type(name, given[name], "give its name, or compile the model with what is your own")
    if "input_shape" in given:
        given["input_shape"] = _shape_of(given["input_shape"])
    if "target" in given:
        given["target"] = target_of(given["target"])
    if "batch_size" in given:
        if not _is_whole(given["batch_size"]):
            raise UsageError(f"a batch size cannot be {given['batch_size']!r}", hint="use 1 or more")
        given |= {"batch_size": int(given["batch_size"]), "batch_chosen": True}
    return replace(request, **given)


@contextmanager
def as_request(model: ModelLike, **step: Unpack[StepOptions]) -> Iterator[ModelRequest]:
    """Yield the request for a Keras model, or for what ``model`` names. A Keras model is saved for as long as
    the block runs, so that other processes can load it.
    """
    if not _is_keras_model(model):
        yield request_of(model, **step)
        return
    name = str(model.name)
    with tempfile.TemporaryDirectory(prefix="checkmate-model-") as folder:
        file = Path(folder, re.sub(r"[^\w.-]", "_", name) + ".keras")
        try:
            model.save(file)
        except Exception as error:  # code of the user's own may raise anything
            reason = " ".join(str(error).split()).partition(". ")[0]
            raise LoadError(f"the model {name!r} cannot be saved: {reason}", hint=_CODE_HINT) from error
        request = replace(request_of(file, **step), name=name)
        try:
            yield request
        except (ModelReadError, UnsafeModelError) as error:
            sentence = str(error).replace(str(file), f"the model {name!r}, as Keras saves it,")
            raise ModelReadError(sentence, hint=_CODE_HINT) from error


def request_for(request: ModelRequest, graph: Graph) -> ModelRequest:
    """Return the request for the step that ``graph`` was profiled from, with its batch, loss and shapes.
    ``request`` says where the model is, whether its code may run, and what else is to run the step.
    """
    recorded = graph.origin.request
    if not recorded:
        raise UsageError(
            f"{graph.name} was not profiled from a Keras model, so no training step can be made from it",
            hint="make a graph from the model first: checkmate profile MODEL -o G.json",
        )
    known = ModelRequest.from_json(recorded)
    return replace(
        known,
        model=request.model,
        name=request.name,
        allow_code=request.allow_code,
        target=request.target or known.target,
    )


def _is_keras_model(given: object) -> bool:
    keras = sys.modules.get("keras")
    return isinstance(given, getattr(keras, "Model", ()))


def _shape_of(given: str | Sequence[int]) -> tuple[int, ...]:
    if isinstance(given, str):
        return _read(parse_shape, given)
    if not (isinstance(given, Sequence) and all(map(_is_whole, given))):
        raise UsageError(f"input_shape={given!r} is not a shape", hint="write it like (224, 224, 3)")
    return tuple(map(int, given))


def result_of(given: ResultLike, graph: Graph) -> SolveResult:
    """Return the result that is given, or that is in the file ``given``."""
    if isinstance(given, SolveResult):
        return given
    if isinstance(given, str | Path):
        return read_schedule(Path(given), graph)
    raise _wrong_type("schedule", given, "give what checkmate.solve returned, or a schedule file")


def _wrong_type(what: str, given: object, hint: str) -> UsageError:
    return UsageError(f"a {what} cannot be of type {type(given).__name__}", hint=hint)


def graph_of(given: GraphLike) -> Graph:
    """Return the graph that is given, or read or built from a file or a name."""
    if isinstance(given, Graph):
        return given
    if isinstance(given, str | Path):
        return read_or_build(given)
    raise _wrong_type("graph", given, _GRAPH_HINT)


def budget_of(given: BudgetLike) -> Budget:
    """Read ``"6GiB"``, ``"60%"``, ``"min"`` or a number of bytes."""
    if isinstance(given, Budget):
        return given
    try:
        found = Budget(bytes_=int(given)) if _is_whole(given) else parse_budget(str(given))
    except ValueError as error:
        raise UsageError(str(error), hint=_BUDGET_HINT) from error
    if found.bytes_ is not None and found.bytes_ <= 0:
        raise UsageError(f"a budget of {given} leaves no memory at all", hint=_BUDGET_HINT)
    return found


def step_budget_of(given: BudgetLike, peak_bytes: int = _LARGE_STEP) -> Budget:
    """Read a budget for a step that keeps ``peak_bytes`` where it keeps everything."""
    found = budget_of(given)
    few = found.bytes_
    if few is not None and few < _LEAST_BUDGET and peak_bytes >= _LARGE_STEP:
        share = f'"{few}%" for a share of the plain step\'s peak, or ' if few <= 100 else ""
        raise UsageError(
            f"a budget of {plural(few, 'byte')} is less than any step needs", hint=f'write {share}"{few}GiB"'
        )
    return found


def _is_whole(given: object) -> bool:
    if isinstance(given, float):
        return given.is_integer()
    return isinstance(given, Integral) and not isinstance(given, bool)


def budgets_of(given: int | str | Sequence[BudgetLike]) -> int | tuple[Budget, ...]:
    """Return a count as it is, and a list such as ``"25%,50%,8GiB"`` read one by one."""
    if isinstance(given, int):
        return given
    return tuple(budget_of(part) for part in (given.split(",") if isinstance(given, str) else given))


def budget_bytes_of(given: BudgetLike) -> int:
    """Return a budget in bytes; one that depends on the graph is a UsageError."""
    found = budget_of(given)
    if found.bytes_ is None:
        raise UsageError(
            f"{str(given)!r} depends on the batch; write the budget as a size, like 16GiB", hint=_BUDGET_HINT
        )
    return found.bytes_


def on_miss_of(given: OnMiss | str) -> OnMiss:
    words = (
        'write on_miss="closest" (train with the schedule that is least over the budget) or on_miss="raise"'
    )
    return _member(OnMiss, "on_miss", given, words)


def target_of(given: Target | str | None) -> Target | None:
    words = 'write target="executor" (TensorFlow runs op after op) or target="xla" (compiled)'
    return None if given is None else _member(Target, "target", given, words)


def _member(kind: type[Member], name: str, given: str, hint: str) -> Member:
    try:
        return kind(given)
    except ValueError as error:
        raise UsageError(f"{name}={given!r} is not known", hint=hint) from error


def bytes_of(given: str | int | None) -> int | None:
    """Return a size in bytes; None stays None."""
    return _read(parse_bytes, given) if isinstance(given, str) else given


def overhead_of(given: str | float | None) -> float | None:
    """Return an extra cost as a fraction, infinite for ``"any"``; None stays None."""
    return _read(parse_overhead, given) if isinstance(given, str) else given


def _read(parse: Callable[[str], Value], text: str) -> Value:
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(str(error)) from error
