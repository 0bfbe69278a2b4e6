"""Say what becomes of one random program: it is traced, folded, scheduled, emitted, and compared with the
plain step, bit by bit."""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.emit.ordered import ordered_step
from checkmate.backends.tf.live.measure import restored
from checkmate.backends.tf.live.trace import Emit, LiveStep, live_step
from checkmate.backends.tf.measure.step import sum_rounding
from checkmate.backends.tf.models.batch import flatten, flatten_arguments
from checkmate.backends.tf.models.model import ModelLike
from checkmate.backends.tf.xla.tied import tied_step
from checkmate.errors import CheckmateError
from checkmate.ir import Graph, Schedule
from checkmate.memory.check import check
from checkmate.planning.solving import known_minimum
from checkmate.training.any_step import any_step
from tests.nested.leaves import LEAVES, UNITS, State
from tests.nested.programs import Part, smaller
from tests.nested.wraps import WRAPS
from tests.tf.orders import random_steps

ROWS = 256
PLAIN, LAYER = "a plain step", "a Keras layer"
HELD = "held"
ROUNDED = "held but for sums of three terms or more, whose order depends on what else is in memory"
_LONGEST = 300  # characters of another library's error


def outcome(program: Part, kind: str, seed: int = 0) -> str:
    """Return what becomes of ``program`` in a step of a ``kind``: ``held``; ``refused: `` and why;
    ``no step: `` and why TensorFlow has none; ``broken: `` and how. ``seed``: of the random schedule."""
    step = _STEPS[kind](program)
    with private.folding_constants():
        try:
            expected = step.after(step.plain)
        except Exception as error:  # TensorFlow's own, of any kind
            return f"no step: {type(error).__name__}: {str(error)[:_LONGEST]}"
        try:
            return compared(step, expected, Random(seed))
        except CheckmateError as error:
            return f"refused: {type(error).__name__}: {error}"
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            return f"broken: {type(error).__name__} in {last.name}: {str(error)[:_LONGEST]}"


def smallest(program: Part, kind: str, seed: int) -> Part:
    """Return the least of ``program`` that is still broken."""
    for less in smaller(program):
        if outcome(less, kind, seed).startswith("broken"):
            return smallest(less, kind, seed)
    return program


def applied(state: State, part: Part, x: tf.Tensor) -> tf.Tensor:
    if part.kind in LEAVES:
        return LEAVES[part.kind](state, part.number, x)
    bodies = [lambda value, inside=inside: applied(state, inside, value) for inside in part.parts]
    found = WRAPS[part.kind][1](state, part.number, bodies, x)
    return tf.ensure_shape(found, x.shape)


class NestedStep(ABC):
    """A training step around ``program``."""

    def __init__(self, program: Part) -> None:
        self.program, self.state = program, State()
        self.x = np.random.default_rng(1).normal(size=(ROWS, UNITS)).astype(np.float32)

    @property
    @abstractmethod
    def variables(self) -> list[Any]: ...

    @abstractmethod
    def plain(self, x: tf.Tensor) -> tf.Tensor:
        """Do the step as TensorFlow would by itself, and return the loss."""

    @abstractmethod
    def traced(self) -> tuple[LiveStep, list[tf.Tensor]]:
        """Return the step as it is scheduled, and its arguments."""

    def after(self, body: Callable[..., tf.Tensor], *tensors: tf.Tensor) -> list[np.ndarray]:
        """Return the loss, and what the variables become; they are put back."""
        with restored(self.variables):
            loss = tf.function(body, autograph=False)(*tensors or (self.x,))
            return [np.asarray(loss), *(variable.numpy() for variable in self.variables)]


class PlainStep(NestedStep):
    """It keeps every gradient in a variable."""

    def __init__(self, program: Part) -> None:
        super().__init__(program)
        self.seen = [tf.Variable(tf.zeros(variable.shape)) for variable in self.state.trained]

    @property
    def variables(self) -> list[Any]:
        return [*self.state.variables, *self.seen]

    def plain(self, x: tf.Tensor) -> tf.Tensor:
        state, trained = self.state, self.state.trained
        state.given = x
        with tf.GradientTape() as tape:
            found = tf.tanh(applied(state, self.program, tf.tanh(x @ state.kernels[0])) @ state.kernels[1])
            loss = tf.reduce_mean(tf.square(found))
        for variable, seen, gradient in zip(trained, self.seen, tape.gradient(loss, trained), strict=True):
            if gradient is not None:
                dense = tf.convert_to_tensor(gradient)
                seen.assign(dense)
                variable.assign_sub(0.1 * dense)
        return loss

    def traced(self) -> tuple[LiveStep, list[tf.Tensor]]:
        layout, tensors = flatten_arguments(((self.x,), {}))
        return any_step(
            lambda *given: self.plain(*layout.pack(given)[0]), ModelLike("step"), layout, tensors
        ), tensors


class _Layer(keras.layers.Layer):
    def __init__(self, state: State, program: Part) -> None:
        super().__init__()
        self.held, self.inner = [*state.held.values()], [*state.layers.values()]
        self.body = partial(applied, state, program)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return self.body(x)

    def compute_output_spec(self, x: Any) -> Any:
        return keras.KerasTensor(x.shape, x.dtype)


class LayerStep(NestedStep):
    def __init__(self, program: Part) -> None:
        super().__init__(program)
        dense = [keras.layers.Dense(UNITS, activation="tanh") for _ in range(2)]
        self.model = keras.Sequential([dense[0], _Layer(self.state, program), dense[1]])
        self.model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mean_squared_error")
        self.model.build((ROWS, UNITS))
        self.model.optimizer.build(self.model.trainable_variables)

    @property
    def variables(self) -> list[Any]:
        held = [*self.model.variables, *self.model.optimizer.variables]
        found = [*(variable.value for variable in held), *self.state.variables]
        return list({id(variable): variable for variable in found}.values())

    def plain(self, x: tf.Tensor) -> tf.Tensor:
        self.state.given = x
        return self.model.train_step((x, tf.zeros((ROWS, UNITS))))["loss"]

    def traced(self) -> tuple[LiveStep, list[tf.Tensor]]:
        layout, tensors = flatten((self.x, np.zeros((ROWS, UNITS), np.float32)))
        return live_step(self.model, layout, tensors), tensors


_STEPS: Mapping[str, type[NestedStep]] = {PLAIN: PlainStep, LAYER: LayerStep}


def compared(step: NestedStep, expected: Sequence[np.ndarray], random: Random) -> str:
    found, tensors = step.traced()
    sums, answer = sum_rounding(found.folded.traced.ops) > 0, HELD
    for name, schedule, emit in emissions(found.graph, random):
        assert check(found.graph, schedule.steps.tolist()).valid
        emitted = emit(found.folded, schedule)
        got = step.after(lambda *given, emitted=emitted: emitted(*given).loss, *tensors)
        pairs = list(zip(expected, got, strict=True))
        if all(one.tobytes() == other.tobytes() for one, other in pairs):
            continue
        if not sums or not all(np.allclose(*pair, rtol=1e-3, atol=1e-4, equal_nan=True) for pair in pairs):
            return f"broken: by {name} the step differs"
        answer = ROUNDED
    return answer


def emissions(graph: Graph, random: Random) -> Iterator[tuple[str, Schedule, Emit]]:
    drawn = Schedule.of(graph, random_steps(graph, random))
    yield "the plain schedule", Schedule.plain(graph), ordered_step
    yield "a random schedule", drawn, ordered_step
    yield "a random schedule for XLA", drawn, partial(tied_step, compiled=False)
    yield "the smallest schedule", known_minimum(graph).schedule, ordered_step
