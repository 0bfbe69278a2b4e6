"""What the innermost parts of random programs compute; each maps (rows, 64) to the same shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

UNITS = 64


class State:
    """What a program may use beside its rows. ``given``: the step's argument, while it is traced."""

    def __init__(self) -> None:
        random = np.random.default_rng(3)

        def variable(*shape: int, trainable: bool = True) -> keras.Variable:
            return keras.Variable(random.normal(0, 0.15, shape), trainable=trainable, dtype="float32")

        self.held = {f"kernel{number}": variable(UNITS, UNITS) for number in range(3)}
        self.held |= {"bias": variable(UNITS), "scale": variable(), "filters": variable(3, 3, 8, 8)}
        self.held |= {"count": variable(trainable=False), "average": variable(128, UNITS, trainable=False)}
        self.layers: Mapping[str, Any] = {
            "lstm": keras.layers.LSTM(UNITS, return_sequences=True),
            "gru": keras.layers.GRU(UNITS, return_sequences=True),
            "normal": keras.layers.BatchNormalization(),
        }
        for name, layer in self.layers.items():
            layer.build((None, UNITS) if name == "normal" else (1, None, UNITS))
        self.generator = tf.random.Generator.from_seed(5)
        self.given: Any = None

    def __getitem__(self, name: str) -> tf.Variable:
        return self.held[name].value

    @property
    def kernels(self) -> list[tf.Variable]:
        return [self[f"kernel{number}"] for number in range(3)]

    @property
    def trained(self) -> list[tf.Variable]:
        return [each.value for each in self._variables if each.trainable]

    @property
    def variables(self) -> list[tf.Variable]:
        return [*(each.value for each in self._variables), self.generator.state]

    @property
    def _variables(self) -> list[keras.Variable]:
        return [*self.held.values(), *(each for layer in self.layers.values() for each in layer.variables)]


Leaf = Callable[[State, int, tf.Tensor], tf.Tensor]
_ACTIVATIONS: tuple[Any, ...] = (
    tf.tanh, tf.nn.elu, tf.nn.silu, tf.nn.gelu, tf.nn.softplus, tf.nn.softmax, tf.nn.log_softmax, tf.nn.relu6,
    tf.math.erf, tf.math.lgamma, lambda x: tf.clip_by_value(x, -0.5, 0.5), lambda x: tf.nn.l2_normalize(x, 1),
)  # fmt: skip


def _chosen(choices: tuple[Any, ...], number: int) -> Any:
    return choices[number % len(choices)]


def _image(x: tf.Tensor) -> tf.Tensor:
    return tf.reshape(x, (1, x.shape[0], 8, 8))


def _conv(state: State, number: int, x: tf.Tensor) -> tf.Tensor:
    filters = state["filters"]
    found = _chosen(
        (
            lambda image: tf.nn.conv2d(image, filters, 1, "SAME"),
            lambda image: tf.nn.depthwise_conv2d(image, filters[..., :1], (1, 1, 1, 1), "SAME"),
            lambda image: tf.nn.conv2d_transpose(image, filters, image.shape, 1, "SAME"),
            lambda image: tf.nn.max_pool2d(image, 3, 1, "SAME"),
            lambda image: tf.nn.avg_pool2d(image, 3, 1, "SAME"),
            lambda image: tf.nn.local_response_normalization(image),
            lambda image: tf.nn.dilation2d(
                image, filters[..., 0], (1, 1, 1, 1), "SAME", "NHWC", (1, 1, 1, 1)
            ),
        ),
        number,
    )(_image(x))
    return tf.reshape(tf.tanh(found), x.shape)


def _image_function(state: State, number: int, x: tf.Tensor) -> tf.Tensor:
    rows = x.shape[0]
    colours = tf.reshape(tf.sigmoid(x[:, :63]), (1, rows, 21, 3))
    found = _chosen(
        (
            lambda: tf.image.resize(tf.image.resize(colours, (rows, 10)), (rows, 21)),
            lambda: tf.image.resize(tf.image.resize(colours, (rows, 40), "bicubic"), (rows, 21), "gaussian"),
            lambda: tf.image.rgb_to_hsv(colours),
            lambda: tf.image.adjust_gamma(colours, 1.3),
            lambda: colours * tf.image.total_variation(colours) / 1000.0,
            lambda: tf.reduce_sum(tf.image.sobel_edges(colours), -1),
            lambda: tf.image.stateless_random_flip_left_right(colours[0], (number, 1))[None],
            lambda: tf.image.stateless_random_brightness(colours, 0.3, (number, 1)),
            lambda: tf.image.crop_and_resize(colours, [[0.1, 0.1, 0.9, 0.8]], [0], (rows, 21)),
            lambda: tf.reduce_mean(
                tf.image.extract_patches(colours, (1, 1, 3, 1), (1, 1, 1, 1), (1, 1, 1, 1), "SAME"), -1,
                keepdims=True,
            ) * colours,
        ),
        number,
    )()  # fmt: skip
    return tf.concat([tf.reshape(found, (rows, 63)), x[:, 63:]], 1)


def _signal(state: State, number: int, x: tf.Tensor) -> tf.Tensor:
    return _chosen(
        (
            lambda: tf.signal.irfft(tf.signal.rfft(x) * tf.complex(0.5, 0.5)),
            lambda: tf.signal.dct(x, norm="ortho"),
            lambda: tf.signal.inverse_stft(tf.signal.stft(x, 16, 8), 16, 8),
            lambda: tf.reshape(tf.signal.overlap_and_add(tf.reshape(x, (-1, 16, 4)), 4), x.shape),
            lambda: tf.reduce_mean(tf.signal.frame(x, 4, 1, pad_end=True), -1),
            lambda: tf.math.real(tf.signal.ifft(tf.signal.fft(tf.cast(x, tf.complex64)) * (0.5 + 0.1j))),
        ),
        number,
    )()


def _linear(state: State, number: int, x: tf.Tensor) -> tf.Tensor:
    gram = tf.matmul(x, x, transpose_a=True) / float(x.shape[0]) + tf.linalg.diag(
        tf.range(1.0, 3.0, 2 / UNITS)
    )
    found = _chosen(
        (
            lambda: tf.linalg.cholesky(gram),
            lambda: tf.linalg.triangular_solve(tf.linalg.cholesky(gram), gram),
            lambda: tf.linalg.inv(gram),
            lambda: gram * tf.linalg.logdet(gram) / 100.0,
            lambda: tf.linalg.expm(gram / 10.0),
            lambda: tf.linalg.sqrtm(gram),
            lambda: tf.linalg.eigh(gram)[1],
            lambda: tf.linalg.qr(gram)[0],
            lambda: tf.linalg.svd(gram, compute_uv=False) * gram / 10.0,
            lambda: tf.linalg.solve(gram, state.kernels[0]),
            lambda: tf.linalg.band_part(gram, 1, 1),
            lambda: tf.linalg.pinv(gram),
        ),
        number,
    )()
    return tf.tanh(x @ found)


def _indexed(state: State, number: int, x: tf.Tensor) -> tf.Tensor:
    rows = x.shape[0]
    places = tf.cast(tf.abs(x[:, 0]) * 1000.0, tf.int32) % rows
    return _chosen(
        (
            lambda: tf.gather(x, places),
            lambda: x + 0.1 * tf.nn.embedding_lookup(state.kernels[number % 3], places % UNITS),
            lambda: tf.gather(x, tf.argsort(x[:, 1])),
            lambda: tf.tensor_scatter_nd_update(x, places[: rows // 2, None], x[: rows // 2] * 0.5),
            lambda: tf.gather(tf.math.unsorted_segment_mean(x, places % 4, 4), places % 4),
            lambda: x * tf.one_hot(places % UNITS, UNITS),
            lambda: tf.sort(x),
            lambda: tf.math.top_k(x, UNITS).values,
            lambda: tf.gather_nd(x, places[:, None]),
            lambda: tf.scatter_nd(places[:, None], x, x.shape),
            lambda: tf.where(x > 0, x, tf.reverse(x, [1])),
            lambda: tf.roll(x, 3, 0),
        ),
        number,
    )()


def _joined(state: State, number: int, x: tf.Tensor) -> tf.Tensor:
    def written() -> tf.Tensor:
        rows = tf.TensorArray(tf.float32, x.shape[0])
        return rows.unstack(tf.tanh(x)).stack()

    return _chosen(
        (
            lambda: tf.concat([tf.tanh(each) for each in tf.split(x, 4, 1)], 1),
            lambda: tf.stack([*map(tf.sin, tf.unstack(x, axis=1)[:8])] * 8, 1),
            lambda: tf.einsum("ij,kj->ik", x, state.kernels[0]) * 0.1,
            lambda: tf.cumsum(x, 1) * 0.1,
            lambda: tf.math.cumulative_logsumexp(x, 1) * 0.1,
            lambda: tf.pad(x, ((0, 0), (1, 1)), "REFLECT")[:, 1:-1],
            lambda: tf.transpose(tf.transpose(x) * 0.5),
            lambda: tf.reshape(x, tf.shape(x)[::-1] + 0 * tf.shape(x))[: x.shape[0]] if x.shape[0] == UNITS
            else tf.reshape(tf.tanh(x), tf.shape(x)),
            lambda: tf.broadcast_to(tf.reduce_mean(x, 0), x.shape) * x,
            written,
        ),
        number,
    )()  # fmt: skip


def _loss(state: State, number: int, x: tf.Tensor) -> tf.Tensor:
    labels, frames = tf.constant([[1, 2]]), tf.constant([x.shape[0]])
    blank = -1 if number % 2 else 0
    found = _chosen(
        (
            lambda: tf.nn.ctc_loss(labels, x[None], [2], frames, logits_time_major=False, blank_index=blank),
            lambda: tf.nn.sparse_softmax_cross_entropy_with_logits(tf.zeros(x.shape[0], tf.int32), x),
            lambda: tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(x * 0.5), x),
            lambda: tf.nn.weighted_cross_entropy_with_logits(tf.sigmoid(x), x, 2.0),
            lambda: tf.nn.l2_loss(x),
            lambda: tf.nn.log_poisson_loss(tf.exp(x * 0.1), x),
            lambda: tf.image.ssim(x[None, ..., None], tf.tanh(x)[None, ..., None], 1.0, filter_size=3),
        ),
        number,
    )()
    return x * tf.tanh(tf.reduce_mean(found))


def _effect(state: State, number: int, x: tf.Tensor) -> tf.Tensor:
    count, average = state["count"], state["average"]

    def counted() -> tf.Tensor:
        count.assign_add(1.0)
        return x * (1.0 + 0.1 * count)

    def averaged() -> tf.Tensor:
        average.assign(0.9 * average + 0.1 * tf.reduce_mean(x, 0))
        return x - tf.reduce_mean(average, 0)

    def asserted() -> tf.Tensor:
        tf.debugging.assert_less(tf.reduce_max(tf.abs(x)), 1e30)
        return tf.tanh(x)

    return _chosen(
        (
            counted,
            averaged,
            asserted,
            lambda: tf.debugging.check_numerics(tf.sin(x), "a number"),
            lambda: x + 0.1 * state.generator.normal(x.shape),
            lambda: x + tf.stop_gradient(tf.cos(x)),
            lambda: tf.compat.v1.placeholder_with_default(tf.sin(x), x.shape) * 0.5,
            lambda: tf.ensure_shape(tf.tanh(x), (None, UNITS)),
        ),
        number,
    )()


def _waiting(state: State, number: int, x: tf.Tensor) -> tf.Tensor:
    count = state["count"]
    before: Any = _chosen(
        (
            lambda: tf.raw_ops.Shape(input=x),
            lambda: state.given,
            lambda: tf.constant(1.0),
            lambda: state.kernels[2].read_value(),
            lambda: tf.identity_n([x, tf.sin(x)])[1],
            lambda: tf.reshape(x, (-1,)),
            lambda: tf.size(x),
            lambda: count.assign_add(1.0),
            lambda: tf.group(tf.sin(x), tf.reduce_max(x)),
            lambda: tf.reduce_max(x) + tf.reduce_min(x),
            lambda: tf.squeeze(x[None]),
        ),
        number,
    )()
    with tf.control_dependencies([before]):
        return _chosen(
            (
                lambda: tf.cos(x),
                lambda: tf.identity(x),
                lambda: x * tf.exp(0.1 * state["scale"]),
                lambda: x + tf.constant(0.1),
                lambda: tf.identity_n([tf.cos(x), x])[0],
            ),
            number,
        )()


def _layer(state: State, number: int, x: tf.Tensor) -> tf.Tensor:
    layers = state.layers
    return _chosen(
        (
            lambda: layers["lstm"](x[None])[0],
            lambda: layers["gru"](x[None])[0],
            lambda: layers["normal"](x, training=True),
            lambda: tf.nn.experimental.stateless_dropout(x, 0.3, (number, 2)),
            lambda: keras.ops.tanh(keras.ops.layer_normalization(x, gamma=state["bias"])),
            lambda: tf.sparse.sparse_dense_matmul(
                tf.sparse.SparseTensor([[0, 1], [2, 0]], [0.5, 2.0], (x.shape[0], x.shape[0])), x
            ),
        ),
        number,
    )()


LEAVES: Mapping[str, Leaf] = {
    "dense": lambda state, number, x: tf.tanh(x @ state.kernels[number % 3] + state["bias"]),
    "scaled": lambda state, number, x: tf.sin(x * state["scale"]),
    "attention": lambda state, number, x: tf.nn.softmax(tf.matmul(x, x, transpose_b=True) / 8.0) @ x,
    "act": lambda state, number, x: _chosen(_ACTIVATIONS, number)(x),
    "conv": _conv,
    "image": _image_function,
    "signal": _signal,
    "linear": _linear,
    "indexed": _indexed,
    "joined": _joined,
    "loss": _loss,
    "effect": _effect,
    "layer": _layer,
    "waiting": _waiting,
}
