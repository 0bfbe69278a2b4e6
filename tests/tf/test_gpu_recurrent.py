"""Test LSTM and GRU as Keras builds them on a GPU."""

from __future__ import annotations

from pathlib import Path

import keras
import pytest
import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.allocator.learn import (
    reserve_values,
    sizes_of_reserves,
    step_fingerprint,
    with_workspace,
)
from checkmate.backends.tf.measure.concrete import compiled_step
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.trace.op_kinds import recomputable
from checkmate.backends.tf.trace.sizes import is_reserve, tensor_bytes
from checkmate.ir import Schedule
from checkmate.memory.simulate import simulate
from tests.tf.fake_gpu import folded_for_gpu
from tests.tf.requested import predicted_requested

MODELS = Path(__file__).with_name("gpu_models.py")
ELEMENTS = 16 * 32 * 128  # batch, steps, units


def folded_model(monkeypatch: pytest.MonkeyPatch, name: str) -> FoldedStep:
    return folded_for_gpu(monkeypatch, f"{MODELS}:{name}", batch_size=16)


def forward_nodes(folded: FoldedStep) -> list[int]:
    return [node for node, op in enumerate(folded.graph.ops) if "CudnnRNNV3" in op.type.split("+")]


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "reserves"),
    [
        ("lstm", [5 * 4 * ELEMENTS + 256] * 2),
        ("gru", [6 * 4 * ELEMENTS + 256] * 2),
        ("bidirectional", [5 * 4 * ELEMENTS + 256] * 2 + [6 * 4 * ELEMENTS + 256] * 2),
        ("masked", [5 * 4 * ELEMENTS + 256, 6 * 4 * ELEMENTS + 256]),
        ("half", [5 * 2 * ELEMENTS + 256] * 2),
    ],
)
def test_recurrent_layers_fold_on_a_gpu(
    name: str, reserves: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    folded = folded_model(monkeypatch, name)
    values = [value for node in forward_nodes(folded) for value in reserve_values(folded)[node]]
    assert [folded.graph.values[value].bytes for value in values] == reserves
    assert all(folded.graph.ops[node].recomputable for node in forward_nodes(folded))
    # They are held from the forward to the backward pass, so they are in the peak.
    everything = simulate(folded.graph, Schedule.plain(folded.graph))
    assert everything.peak_bytes - folded.graph.fixed_bytes > sum(reserves)


@pytest.mark.parametrize(
    ("mode", "layers", "directions", "sizes", "dropout", "dtype", "bytes_"),
    [
        ("lstm", 1, 1, (20, 16, 64), 0.0, tf.float32, 409_856),
        ("lstm", 1, 1, (64, 256, 256), 0.0, tf.float32, 83_886_336),
        ("lstm", 2, 1, (20, 16, 64), 0.0, tf.float32, 901_376),
        ("lstm", 1, 2, (20, 16, 64), 0.0, tf.float32, 819_456),
        ("lstm", 2, 1, (20, 16, 64), 0.5, tf.float32, 903_936),
        ("lstm", 1, 1, (20, 16, 64), 0.0, tf.float16, 205_056),
        ("gru", 1, 1, (20, 16, 64), 0.0, tf.float32, 491_776),
        ("gru", 1, 1, (64, 256, 256), 0.0, tf.float32, 100_663_552),
        ("gru", 2, 1, (20, 16, 64), 0.0, tf.float32, 1_065_216),
        ("gru", 1, 2, (20, 16, 64), 0.0, tf.float32, 983_296),
        ("rnn_tanh", 1, 1, (20, 16, 64), 0.0, tf.float32, 82_176),
        ("rnn_tanh", 1, 1, (64, 256, 256), 0.0, tf.float32, 16_777_472),
        ("rnn_tanh", 2, 1, (20, 16, 64), 0.0, tf.float32, 246_016),
        ("rnn_tanh", 1, 2, (20, 16, 64), 0.0, tf.float32, 164_096),
    ],
)
def test_the_reserve_is_what_cudnn_asked_for_on_an_h200(
    mode: str,
    layers: int,
    directions: int,
    sizes: tuple[int, int, int],
    dropout: float,
    dtype: tf.DType,
    bytes_: int,
) -> None:
    """The bytes were read on an NVIDIA H200 with cuDNN 9."""
    steps, batch, units = sizes
    with tf.Graph().as_default():
        state = tf.zeros((layers * directions, batch, units), dtype)
        made = tf.raw_ops.CudnnRNNV3(
            input=tf.zeros((steps, batch, 8), dtype), input_h=state, input_c=state,
            params=tf.zeros((9,), dtype), sequence_lengths=tf.fill((batch,), steps), rnn_mode=mode,
            direction="bidirectional" if directions == 2 else "unidirectional", dropout=dropout,
            is_training=True,
        )  # fmt: skip
        made.output.set_shape((steps, batch, units * directions))
        assert is_reserve(made.reserve_space) and not is_reserve(made.output)
        assert tensor_bytes(made.reserve_space) == bytes_
        assert tensor_bytes(made.host_reserved) == 0


@pytest.mark.parametrize(("dropout", "trains"), [(0.0, True), (0.5, True), (0.0, False)])
def test_a_kernel_keeps_something_to_train_and_runs_once_with_dropout(dropout: float, trains: bool) -> None:
    with tf.Graph().as_default():
        made = tf.raw_ops.CudnnRNNV3(
            input=tf.zeros((20, 4, 8)), input_h=tf.zeros((1, 4, 16)), input_c=tf.zeros((1, 4, 16)),
            params=tf.zeros((9,)), sequence_lengths=tf.fill((4,), 20), dropout=dropout, is_training=trains,
        )  # fmt: skip
        made.output.set_shape((20, 4, 16))
        assert bool(tensor_bytes(made.reserve_space)) is trains
        assert recomputable(made.output.op) is (dropout == 0.0)


def test_a_traced_size_replaces_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    folded = folded_model(monkeypatch, "lstm")
    first, second = forward_nodes(folded)
    learned = sizes_of_reserves(folded, {first: 4_000_000, second: 0})
    graph = with_workspace(folded.graph, {}, learned)
    (value,) = reserve_values(folded)[first]
    (other,) = reserve_values(folded)[second]
    assert graph.values[value].bytes == 4_000_000 and graph.values[other] == folded.graph.values[other]
    assert step_fingerprint(graph) == folded.graph.fingerprint != graph.fingerprint
    steps = list(range(graph.n))
    more = 4_000_000 - folded.graph.values[value].bytes
    assert (
        predicted_requested(folded, graph, steps) == predicted_requested(folded, folded.graph, steps) + more
    )


def test_a_recomputed_recurrent_layer_is_emitted(monkeypatch: pytest.MonkeyPatch) -> None:
    folded = folded_model(monkeypatch, "lstm")
    first, _ = forward_nodes(folded)
    reader = next(
        node
        for node, op in enumerate(folded.graph.ops)
        if set(op.inputs) & set(reserve_values(folded)[first]) and node != first
    )
    steps = [*range(reader), first, *range(reader, folded.graph.n)]
    emitted = compiled_step(folded, steps).graph.get_operations()
    copies = [op for op in emitted if op.type == "CudnnRNNV3"]
    assert len(copies) == 3
    backward = [
        op for op in emitted if op.type == "CudnnRNNBackpropV3" and op.name.startswith(f"step{reader + 1}/")
    ]
    assert len(backward) == 1


def test_keras_is_asked_again_afterwards() -> None:
    def built() -> set[str]:
        function = tf.function(lambda x: layer(x)).get_concrete_function(tf.TensorSpec((2, 5, 3)))
        return {op.type for op in function.graph.get_operations()}

    layer = keras.layers.LSTM(4)
    layer.build((2, 5, 3))
    with private.keras_sees_gpu():
        assert "CudnnRNNV3" in built()
    assert "CudnnRNNV3" not in built()
