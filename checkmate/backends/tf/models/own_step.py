"""Load a training step that is not Keras's own, with an example for it.

It is a function of tensors that came with an example, or the ``train_step`` that a model brings along, with a
batch or else one that fits its inputs."""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from types import CodeType, FunctionType, MethodType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.models.batch import BatchLayout, flatten_arguments, flatten_data
from checkmate.backends.tf.models.model import NO_LABELS, LoadedModel, ModelLike, OwnStep, keras_model
from checkmate.errors import DynamicShapeError, JitCompiledError, TraceError, UsageError
from checkmate.models.arrays import ArraySpec
from checkmate.models.error_text import reason
from checkmate.models.inputs import Inputs, build_subclassed, describe_inputs
from checkmate.models.keras_graph import inputs_of, walk_layers
from checkmate.models.losses import Labels, describe_labels
from checkmate.models.user_code import FromCode, explained, other_batch, require_compiled, require_no_options
from checkmate.request import ModelRequest, Target

_UNBOUND = re.compile(r"Binding inputs to tf.function failed due to `(.+?)`")
_MOST_ITEMS = 10_000  # of one list or dictionary that may lead to layers
_PLAIN = (bool, int, float, complex, str, bytes, np.ndarray, np.generic, tf.Tensor)


def has_own_step(model: Any) -> bool:
    return getattr(model.train_step, "__func__", None) is not keras.Model.train_step


def as_function(step: Any) -> Any:
    return step if isinstance(step, tf.types.experimental.PolymorphicFunction) else tf.function(step)


def load_own_step(found: FromCode, request: ModelRequest, notes: list[str]) -> LoadedModel:
    with naming(request.model):
        if isinstance(found.subject, keras.Model):
            return _load_train_step(found, request, notes)
        return _load_function(found, request, notes)


@contextmanager
def naming(spec: str) -> Iterator[None]:
    """Let errors of tracing a step say where it comes from: ``spec`` begins their sentence."""
    try:
        yield
    except (TraceError, JitCompiledError) as error:
        if spec in str(error):
            raise
        raise type(error)(f"{spec}: {error}", hint=error.hint, details=error.details) from error


def _load_function(found: FromCode, request: ModelRequest, notes: list[str]) -> LoadedModel:
    require_no_options(request)
    example = found.example if isinstance(found.example, tuple) else (found.example,)
    layout, tensors = flatten_arguments((_with_values(example), {}))
    layout.require_plannable()
    if not tensors:
        raise TraceError(
            f"the example of {request.model} holds no tensors",
            hint="give what the step is called with: tensors, arrays or tf.TensorSpec(shape, dtype)",
        )
    subject = ModelLike(_short(request), layers_of(found.subject))  # a trace hides what a method belongs to
    function = as_function(found.subject)
    with explained(request.model):
        # It may make variables. Made inside another trace, they would put it all in a branch.
        arguments, named = layout.place(layout.parts)
        try:
            function.get_concrete_function(*arguments, **named)
        except TypeError as error:
            if (why := _UNBOUND.search(str(error))) is None:
                raise
            raise TraceError(
                f"the example of {request.model} does not fit its step: {why[1]}",
                hint="give a tuple of the step's arguments, in their order",
            ) from error

    def call(*flat: tf.Tensor) -> Any:
        arguments, named = layout.pack(flat)
        return function(*arguments, **named)

    parameters = _parameters(function)

    def name(path: tuple[Any, ...]) -> tuple[Any, ...]:
        where, first, *rest = path
        if where == 0:  # an argument without a keyword
            first = parameters[first] if first < len(parameters) else f"input_{first}"
        return first, *rest

    own = OwnStep(request.model, layout, call, layout.names(name), _copies(tensors), found.sized)
    return _loaded(subject, own, request, [*notes, *_example_notes(found, request, layout)])


def _parameters(function: Any) -> list[str]:
    try:
        found = list(inspect.signature(function.python_function).parameters.values())
    except (TypeError, ValueError):
        return []
    return [one.name for one in found if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]


def _load_train_step(found: FromCode, request: ModelRequest, notes: list[str]) -> LoadedModel:
    model = found.subject
    _require_schedulable(model, request)
    require_no_options(request, shape=found.has_example)
    if found.has_example:
        own = _train_step(model, request, _with_values(found.example), sized=found.sized)
        return _loaded(model, own, request, [*notes, *_example_notes(found, request, own.layout)])
    own, how = _fitting(model, request)
    return _loaded(model, own, request, [*notes, *how])


def _fitting(model: Any, request: ModelRequest) -> tuple[OwnStep, list[str]]:
    failed: list[BaseException] = []
    for data, notes in _likely_batches(model, request):
        own = _train_step(model, request, data, sized=True)
        try:
            tf.function(own.call, autograph=False).get_concrete_function(*own.layout.specs)
        except Exception as error:  # the step is the user's code, which may raise what it likes
            failed.append(error)
            continue
        return own, notes
    why = reason(failed[0]).split(". ")[0]
    raise TraceError(
        f"the train_step of {request.model} takes no batch that was tried: {why}",
        hint="return the model with a batch for it, as fit hands it to train_step: (model, batch)",
    ) from failed[0]


def _likely_batches(model: Any, request: ModelRequest) -> Iterator[tuple[Any, list[str]]]:
    """Yield likely training batches with notes: with labels if the model has a loss, then without."""
    inputs, where = _inputs(model, request)
    labels = _labels(model, inputs, request.batch_size)
    for wanted in (labels, NO_LABELS) if labels.specs else (NO_LABELS,):
        plain = keras_model(model, model.name, request.batch_size, inputs, wanted)
        x, y = plain.pack(plain.make_batch())
        data = (x, y) if wanted.specs else x
        what = " and ".join(f"{spec.dtype} of {_show(spec)}" for spec in (*inputs.specs, *wanted.specs))
        yield data, [*inputs.notes, *wanted.notes, f"its train_step is given {what}{where}"]


def _inputs(model: Any, request: ModelRequest) -> tuple[Inputs, str]:
    """Return the inputs of ``model``, or of the largest model in it, and words that say so."""
    try:
        return describe_inputs(model, request), ""
    except DynamicShapeError as error:
        parts = [layer for layer in model.layers if isinstance(layer, keras.Model) and inputs_of(layer)]
        if request.input_shape is not None or inputs_of(model) or not parts:
            raise DynamicShapeError(
                str(error), hint=f"{error.hint}; or return the model with a batch for it: (model, batch)"
            ) from error
    described = [(describe_inputs(part, request), part.name) for part in parts]
    found, name = max(described, key=lambda each: sum(math.prod(spec.shape) for spec in each[0].specs))
    return found, f", as its part {name!r} takes it"


def _labels(model: Any, inputs: Inputs, batch_size: int) -> Labels:
    if getattr(model, "loss", None) is None:
        return NO_LABELS
    try:
        outputs = model.output if inputs_of(model) else build_subclassed(model, inputs)
    except TraceError:  # it is never called as a whole
        return NO_LABELS
    return describe_labels(model, outputs, batch_size)


def _train_step(model: Any, request: ModelRequest, data: Any, *, sized: bool) -> OwnStep:
    layout, tensors = flatten_data(data)
    layout.require_plannable()

    def call(*flat: tf.Tensor) -> Any:
        return model.train_step(layout.pack(flat))

    names = layout.names(lambda path: ("data", *path))
    return OwnStep(request.model, layout, call, names, _copies(tensors), sized)


def _loaded(subject: Any, own: OwnStep, request: ModelRequest, notes: list[str]) -> LoadedModel:
    size, specs = own.layout.batch_size, own.layout.specs
    if own.sized and request.batch_size != size:
        raise UsageError(
            f"{request.model} was asked for a batch of {request.batch_size}, and returns an example whose "
            f"first dimension is {size}",
            hint="let the first tensor of the example have batch_size as its first dimension; a step that "
            "joins views of a batch can take each as an argument",
        )
    if request.batch_chosen and request.batch_size != size:
        raise other_batch(request, f"an example of {size}")
    return LoadedModel(subject, _short(request), size, specs, notes=tuple(notes), own=own)


def _example_notes(found: FromCode, request: ModelRequest, layout: BatchLayout) -> list[str]:
    said = f"the batch is the example that {request.model} returns: {layout.batch_size} examples"
    notes = [] if found.sized else [said]
    if any(_is_spec(leaf) for leaf in keras.tree.flatten(found.example)):
        notes.append("where the example gives shapes alone, numbers are random in [0, 1), integers are 0")
    return notes


def _require_schedulable(model: Any, request: ModelRequest) -> None:
    require_compiled(model, request)
    if model.run_eagerly:
        raise UsageError(
            f"the model of {request.model} runs eagerly, and only a traced step can be scheduled",
            hint="compile it with run_eagerly=False",
        )
    # Where there is a GPU, it may be Keras's own choice.
    on_cpu = all(device.device_type == "CPU" for device in tf.config.list_physical_devices())
    if model.jit_compile and on_cpu and request.target != Target.EXECUTOR:
        raise JitCompiledError(
            f"the model of {request.model} is compiled with jit_compile=True, "
            "and its own train_step is scheduled for XLA by checkmate.rematerialize alone",
            hint='add target="executor" to have TensorFlow run it op after op',
        )


def _with_values(example: Any) -> Any:
    random = np.random.default_rng(0)

    def leaf(found: Any) -> Any:
        if not _is_spec(found):
            return found
        shape = tf.TensorShape(found if isinstance(found, tf.TensorShape) else found.shape)
        if not shape.is_fully_defined():
            raise DynamicShapeError(
                f"the example has a tensor of shape {shape}, so its size is not known before it runs",
                hint="give whole shapes, batch included",
            )
        dtype = tf.as_dtype(getattr(found, "dtype", tf.float32))
        if not (dtype.is_floating or dtype.is_integer or dtype.is_bool or dtype.is_complex):
            raise TraceError(
                f"the example has a tensor of {dtype.name}, for which no values can be made",
                hint="give a tensor or an array with values; feed token ids in place of text",
            )
        return tf.cast(random.random(shape.as_list(), dtype=np.float32), dtype)

    return keras.tree.map_structure(leaf, example)


def _is_spec(leaf: Any) -> bool:
    return isinstance(leaf, (tf.TensorSpec, tf.TensorShape, keras.KerasTensor))


def _copies(tensors: list[tf.Tensor]) -> tuple[np.ndarray, ...]:
    return tuple(np.array(tensor.numpy()) for tensor in tensors)


def _short(request: ModelRequest) -> str:
    return request.model.rpartition(":")[2]


def _show(spec: ArraySpec) -> str:
    return "×".join(map(str, tuple(spec.shape))) or "a number"


def layers_of(function: Any) -> tuple[Any, ...]:
    """Return the outermost layers and models that ``function`` refers to, directly or through functions,
    objects and modules."""
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
    # A step may refer to a whole data set of numbers and texts.
    return islice((item for item in items if not isinstance(item, _PLAIN)), _MOST_ITEMS)


def _referred(function: FunctionType) -> Iterator[Any]:
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
