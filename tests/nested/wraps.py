"""What the outer parts of random programs do with the parts in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tests.nested.leaves import UNITS, State

Body = Callable[[tf.Tensor], tf.Tensor]
Wrap = Callable[[State, int, Sequence[Body], tf.Tensor], tf.Tensor]
_CHUNKS = 4


def _chunks(x: tf.Tensor) -> tf.Tensor:
    return tf.reshape(x, (_CHUNKS, x.shape[0] // _CHUNKS, UNITS))


def _cond(state: State, number: int, bodies: Sequence[Body], x: tf.Tensor) -> tf.Tensor:
    asked = (tf.reduce_mean(x) > 0, state["count"] > 0.5, tf.reduce_sum(state.kernels[0]) > 0)
    return tf.cond(asked[number % 3], lambda: bodies[0](x), lambda: bodies[1](x))


def _switch(state: State, number: int, bodies: Sequence[Body], x: tf.Tensor) -> tf.Tensor:
    place = tf.cast(tf.abs(tf.reduce_sum(x)) * 100.0, tf.int32) % 3
    return tf.switch_case(place, [lambda body=body: body(x) for body in bodies])


def _case(state: State, number: int, bodies: Sequence[Body], x: tf.Tensor) -> tf.Tensor:
    cases = [(tf.reduce_max(x) > 0.9, lambda: bodies[0](x)), (tf.reduce_min(x) < 0, lambda: bodies[1](x))]
    return tf.case(cases, default=lambda: tf.identity(x))


def _while(state: State, number: int, bodies: Sequence[Body], x: tf.Tensor) -> tf.Tensor:
    trips = 2 + number % 3
    return tf.while_loop(
        lambda i, value: i < trips,
        lambda i, value: (i + 1, bodies[0](value)),
        (0, x),
        maximum_iterations=trips if number % 2 else None,
    )[1]


def _until(state: State, number: int, bodies: Sequence[Body], x: tf.Tensor) -> tf.Tensor:
    return tf.while_loop(
        lambda i, value: tf.logical_and(i < 4, tf.reduce_mean(tf.abs(value)) > 0.01),
        lambda i, value: (i + 1, tf.ensure_shape(0.5 * bodies[0](value), x.shape)),
        (0, x),
        maximum_iterations=4 if number % 2 else None,
    )[1]


def _map(state: State, number: int, bodies: Sequence[Body], x: tf.Tensor) -> tf.Tensor:
    return tf.reshape(tf.map_fn(bodies[0], _chunks(x)), x.shape)


def _vectorized(state: State, number: int, bodies: Sequence[Body], x: tf.Tensor) -> tf.Tensor:
    return tf.reshape(tf.vectorized_map(bodies[0], _chunks(x)), x.shape)


def _scan(state: State, number: int, bodies: Sequence[Body], x: tf.Tensor) -> tf.Tensor:
    chunks = _chunks(x)
    found = tf.scan(lambda sofar, each: bodies[0](sofar + each), chunks, tf.zeros_like(chunks[0]))
    return tf.reshape(found, x.shape)


def _fold(state: State, number: int, bodies: Sequence[Body], x: tf.Tensor) -> tf.Tensor:
    found = tf.foldr(lambda sofar, each: bodies[0](sofar) + each, _chunks(x))
    return tf.tile(found, (_CHUNKS, 1))


def _call(state: State, number: int, bodies: Sequence[Body], x: tf.Tensor) -> tf.Tensor:
    options: Any = ({}, {"experimental_attributes": {"_noinline": True}}, {"reduce_retracing": True})[
        number % 3
    ]
    function = tf.function(bodies[0], autograph=False, **options)
    return function(function(x)) if number % 2 else function(x)


def _python(state: State, number: int, bodies: Sequence[Body], x: tf.Tensor) -> tf.Tensor:
    body = tf.autograph.experimental.do_not_convert(bodies[0])

    @tf.function
    def function(value: tf.Tensor) -> tf.Tensor:
        for i in tf.range(3):
            if tf.reduce_mean(value) > 0.1 * tf.cast(i, tf.float32):
                value = body(value)
            else:
                value = value * 0.9
                if i == 1:
                    break
        return value

    return function(x)


def _custom(state: State, number: int, bodies: Sequence[Body], x: tf.Tensor) -> tf.Tensor:
    @tf.custom_gradient
    def function(value: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(value)
            found = bodies[0](value)

        def gradient(upstream: tf.Tensor, variables: Sequence[Any] = ()) -> Any:
            with tf.GradientTape() as again:
                again.watch(value)
                recomputed = bodies[0](value) if number % 2 else found
            held = again if number % 2 else tape
            first, *rest = held.gradient(recomputed, [value, *variables], output_gradients=upstream)
            return (first * 0.5, rest) if variables else first * 0.5

        return found, gradient

    return function(x)


def _recompute(state: State, number: int, bodies: Sequence[Body], x: tf.Tensor) -> tf.Tensor:
    return tf.recompute_grad(bodies[0])(x)


def _after(state: State, number: int, bodies: Sequence[Body], x: tf.Tensor) -> tf.Tensor:
    first = bodies[0](x)
    with tf.control_dependencies([first]):
        second = bodies[1](tf.identity(x) if number % 2 else x)
    return second + first if number % 3 else second


def _grouped(state: State, number: int, bodies: Sequence[Body], x: tf.Tensor) -> tf.Tensor:
    first, second = tf.tuple([bodies[0](x), bodies[1](x)])
    with tf.control_dependencies([tf.group(first, second)]):
        constant = tf.constant(0.5) if number % 2 else tf.ones((UNITS,)) * 0.5
    return first * constant + second


def _penalty(state: State, number: int, bodies: Sequence[Body], x: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        tape.watch(x)
        found = bodies[0](x)
        total = tf.reduce_sum(found)
    return found + 0.1 * tf.tanh(tape.gradient(total, x))


def _forward(state: State, number: int, bodies: Sequence[Body], x: tf.Tensor) -> tf.Tensor:
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulated:
        found = bodies[0](x)
    return found + 0.1 * tf.tanh(accumulated.jvp(found))


WRAPS: Mapping[str, tuple[int, Wrap]] = {
    "cond": (2, _cond),
    "switch": (3, _switch),
    "case": (2, _case),
    "while": (1, _while),
    "until": (1, _until),
    "map": (1, _map),
    "vectorized": (1, _vectorized),
    "scan": (1, _scan),
    "fold": (1, _fold),
    "call": (1, _call),
    "python": (1, _python),
    "custom": (1, _custom),
    "recompute": (1, _recompute),
    "after": (2, _after),
    "grouped": (2, _grouped),
    "penalty": (1, _penalty),
    "forward": (1, _forward),
    "residual": (1, lambda state, number, bodies, x: x + bodies[0](x)),
    "then": (2, lambda state, number, bodies, x: bodies[1](bodies[0](x))),
}
