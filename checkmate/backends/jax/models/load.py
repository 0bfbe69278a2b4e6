"""Load the training step that a request names: Keras's, or a user's with an example of its arguments."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from checkmate.backends.jax.device import lost_gpu
from checkmate.backends.jax.program import shape_of
from checkmate.errors import TraceError, UsageError
from checkmate.models.arrays import packed
from checkmate.models.builtin import dtype_policy
from checkmate.models.error_text import first_line
from checkmate.models.inputs import Inputs
from checkmate.models.losses import Labels
from checkmate.models.ready import Found, ReadyModel, find_model, make_ready
from checkmate.models.user_code import explained, other_batch, require_compiled, require_no_options
from checkmate.request import ModelRequest, Target

_LITTLE = "jax_disable_most_optimizations"


@dataclass(frozen=True, eq=False)
class LoadedStep:
    """A training step and its arguments.

    ``step``: raises a TraceError if the user's code in it fails. ``shapes``: the arguments, with
    ``jax.ShapeDtypeStruct`` for arrays. ``example``: the arguments, or Keras's batch, as the user gave them;
    a ``ReadyModel`` where none was given. ``donated``: numbers of arguments; None: as the jitted step itself
    donates. ``batch_size``: None if not known.
    """

    name: str
    step: Callable[..., Any]
    shapes: tuple[Any, ...]
    example: Any
    donated: tuple[int, ...] | None
    batch_size: int | None
    notes: tuple[str, ...]
    keras_model: Any = None  # the model, if it is a Keras model's step

    def arguments(self) -> tuple[Any, ...]:
        """Make them anew: a step may take over what it is given."""
        ready = isinstance(self.example, ReadyModel)
        given: Any = _random_batch(self.example) if ready else with_values(self.example)
        model = self.keras_model
        return given if model is None else (jax.tree.map(jnp.copy, state_of(model)), given)


def load_step(request: ModelRequest) -> LoadedStep:
    """Load the step that ``request`` names. No seed is set, and the dtype policy is put back.

    Raises:
        LoadError: the model cannot be found, read or safely opened.
        TraceError: it has no training step that could be scheduled. UsageError: an option does not fit.
    """
    _require_options(request)
    with dtype_policy(None), redirect_stdout(sys.stderr), _compiling_little():
        found = find_model(request, (jax.stages.Wrapped,))
        if lost := lost_gpu():
            found = replace(found, notes=(*found.notes, lost))
        if not isinstance(found.code.subject, keras.Model):
            return _of_function(found, request)
        if found.code.has_example:
            return _of_pair(found, request)
        return _of_model(make_ready(found, request), request)


@contextmanager
def _compiling_little() -> Iterator[None]:
    """Let XLA optimize little while weights are initialized: each shape is a program that runs once."""
    before = jax.config.read(_LITTLE)
    jax.config.update(_LITTLE, True)
    try:
        yield
    finally:
        jax.config.update(_LITTLE, before)


def _of_model(ready: ReadyModel, request: ModelRequest) -> LoadedStep:
    specs = [part.specs for part in _parts(ready)]
    shapes = _batch(
        ready, [[jax.ShapeDtypeStruct(spec.shape, spec.dtype) for spec in each] for each in specs]
    )
    return _of_train_step(ready.model, ready.name, shapes, ready, request.batch_size, ready.notes)


def _parts(ready: ReadyModel) -> tuple[Inputs | Labels, ...]:
    return ready.inputs, ready.labels


def _batch(ready: ReadyModel, flat: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    x, y = (packed(part.structure, each) for part, each in zip(_parts(ready), flat, strict=True))
    return (x, y) if ready.labels.specs else (x,)


def _random_batch(ready: ReadyModel) -> tuple[Any, ...]:
    random = np.random.default_rng(0)
    values = [zip(part.random(random), part.specs, strict=True) for part in _parts(ready)]
    return _batch(ready, [[jnp.asarray(value, spec.dtype) for value, spec in each] for each in values])


def _of_pair(found: Found, request: ModelRequest) -> LoadedStep:
    require_no_options(request)
    model, example = found.code.subject, found.code.example
    require_compiled(model, request)
    data = without_missing(example if isinstance(example, tuple) else (example,))
    first = next(iter(jax.tree.leaves(data)), None)
    size = int(first.shape[0]) if first is not None and first.shape else None
    if request.batch_chosen and size != request.batch_size:
        raise other_batch(request, f"an example of {size}")
    shapes = jax.tree.map(shape_of, data)
    return _of_train_step(model, found.name, shapes, data, size, found.notes)


def _of_train_step(
    model: Any,
    name: str,
    shapes: Any,
    example: Any,
    size: int | None,
    notes: tuple[str, ...],
) -> LoadedStep:
    def train_step(state: Any, data: Any) -> Any:
        return model.train_step(state, data)

    try:
        model._symbolic_build(data_batch=(*shapes, *(None,) * (3 - len(shapes))))
        state = jax.tree.map(shape_of, state_of(model))
    except Exception as error:  # foreign code: the layers, the loss and the metrics of a model
        raise TraceError(
            f"the training step of {name!r} could not be built: {first_line(error)}",
            hint="train it on one batch without checkmate first",
        ) from error

    step = _with_trace_error(train_step, name)
    return LoadedStep(name, step, (state, shapes), example, (0,), size, notes, model)


def _of_function(found: Found, request: ModelRequest) -> LoadedStep:
    require_no_options(request)
    code = found.code
    if request.batch_chosen and not code.sized:
        raise other_batch(request, "one example")
    example = code.example if isinstance(code.example, tuple) else (code.example,)
    if not jax.tree.leaves(example):
        raise TraceError(
            f"the example of {request.model} holds no arrays",
            hint="give what the step is called with: arrays or jax.ShapeDtypeStruct(shape, dtype)",
        )
    shapes = jax.tree.map(shape_of, example)
    size = request.batch_size if code.sized else None
    step = _with_trace_error(code.subject, found.name)
    return LoadedStep(found.name, step, shapes, example, None, size, found.notes)


def _with_trace_error(step: Callable[..., Any], name: str) -> Callable[..., Any]:
    @wraps(step)
    def run(*args: Any) -> Any:
        with explained(name):
            return step(*args)

    run.__name__ = name
    return run


def _require_options(request: ModelRequest) -> None:
    if request.target == Target.EXECUTOR:
        raise UsageError(
            "a step of JAX is compiled by XLA, and the executor is TensorFlow's",
            hint="leave target= out, or set KERAS_BACKEND=tensorflow",
        )
    here = jax.default_backend()
    wanted = (request.device or here).partition(":")[0]
    if wanted != here or (request.device or "").endswith(tuple("123456789")):
        raise UsageError(
            f"JAX runs on the {here} here, and the device {request.device} is TensorFlow's to choose",
            hint=lost_gpu()
            or "leave device= out; JAX_PLATFORMS=cpu and CUDA_VISIBLE_DEVICES=1 choose JAX's device",
        )
    if keras.config.is_nnx_enabled():
        raise TraceError(
            "Keras keeps its variables in Flax (NNX)", hint="set KERAS_NNX_ENABLED=false before Keras starts"
        )


def with_values(tree: Any) -> Any:
    """Return new arrays in the structure of ``tree``: copies, or values where it gives shapes alone."""
    random = np.random.default_rng(0)

    def values(leaf: Any) -> Any:
        if not isinstance(leaf, jax.ShapeDtypeStruct):
            return jnp.copy(jnp.asarray(leaf))
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.split(jax.random.key(0), leaf.shape)
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            return jnp.asarray(random.random(leaf.shape, dtype=np.float32), leaf.dtype)
        return jnp.zeros(leaf.shape, leaf.dtype)

    return jax.tree.map(values, tree)


def state_of(model: Any) -> Any:
    return model._get_jax_state(
        trainable_variables=True,
        non_trainable_variables=True,
        optimizer_variables=True,
        metrics_variables=True,
    )


def without_missing(data: Any) -> Any:
    """Return a batch without trailing Nones: ``fit`` omits absent targets or weights, others pass None."""
    while isinstance(data, tuple) and data and data[-1] is None:
        data = data[:-1]
    return data
