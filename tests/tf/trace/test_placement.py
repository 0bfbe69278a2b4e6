"""Test rules of the graph for a GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from checkmate.backends.tf.devices import Kernels
from checkmate.backends.tf.trace import op_kinds
from checkmate.backends.tf.trace.clusters import clusters_of
from checkmate.backends.tf.trace.dataflow import ARGMAX, structure_of
from checkmate.backends.tf.trace.of_request import trace_request
from checkmate.backends.tf.trace.op_kinds import in_host_memory, keeps_argmax, kernels_of
from checkmate.machine.processor import Processor
from checkmate.progress import never, silent
from checkmate.request import ModelRequest
from tests.tf.fake_gpu import folded_for_gpu

MODELS = Path(__file__).parents[1]


def test_whole_numbers_of_32_bits_lie_on_the_host_unless_a_kernel_reads_them_on_the_gpu() -> None:
    with tf.Graph().as_default():
        numbers = tf.range(100_000)
        doubled = numbers + numbers
        long = tf.range(tf.constant(100_000, tf.int64))
        table = tf.zeros((10, 10))
        read = tf.reshape(numbers + 1, (2, -1))
        tf.gather(table, read)
        floats = tf.cast(table, tf.float16)
    assert in_host_memory(numbers) and in_host_memory(doubled)
    assert not in_host_memory(long) and not in_host_memory(floats)
    assert not in_host_memory(read.op.inputs[0]), "a gather reads its indices on the GPU, through the reshape"


def test_ops_without_a_kernel_for_a_gpu_run_on_the_host() -> None:
    with tf.Graph().as_default():
        made = tf.raw_ops.StringToNumber(string_tensor=tf.fill((10,), "1"), out_type=tf.float32)
        assert in_host_memory(made)
        tf.matmul(made[:, None], made[None])
        assert not in_host_memory(made[None].op.inputs[0]), "the inputs of a product are copied to the GPU"


def structures(name: str, monkeypatch: pytest.MonkeyPatch):
    folded = folded_for_gpu(monkeypatch, f"{MODELS / name.split(':')[0]}:{name.split(':')[1]}")
    return folded.structure, structure_of(folded.traced, Kernels.EIGEN)


def test_the_step_s_whole_numbers_are_not_the_gpu_s(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, cpu = structures("gpu_models.py:counted", monkeypatch)
    host = {key for key, size in cpu.bytes_of.items() if size and not gpu.bytes_of[key]}
    assert host and all(gpu.ops[op].outputs[number].dtype == tf.int32 for op, number in host)
    assert 4 * 32768 in {cpu.bytes_of[key] for key in host}
    assert {key: size for key, size in gpu.bytes_of.items() if key not in host} == {
        key: size for key, size in cpu.bytes_of.items() if key not in host
    }


def test_a_gpu_keeps_no_argmax_and_no_bias_gradient_joins_another(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, _ = structures("small_models.py:convnet", monkeypatch)
    onednn = structure_of(gpu.traced, Kernels.ONEDNN)
    assert any(number == ARGMAX for _, number in onednn.bytes_of) and not any(
        n == ARGMAX for _, n in gpu.bytes_of
    )

    def joined(structure) -> int:
        types = [
            {structure.ops[op].type for op in members} for members in clusters_of(structure, frozenset())
        ]
        return sum({"BiasAddGrad", "Conv2DBackpropFilter"} <= found for found in types)

    assert joined(onednn) > 0 and joined(gpu) == 0


@pytest.mark.heavy
def test_a_graph_folded_for_a_gpu_is_the_same_wherever_it_is_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = folded_for_gpu(monkeypatch, "convnet", batch_size=4).graph
    monkeypatch.undo()
    request = ModelRequest(
        f"{MODELS / 'small_models.py'}:convnet", 4, device="cpu", kernels="cuda", allow_code=True
    )
    here = trace_request(request, report=silent, cancelled=never).graph
    assert np.array_equal([value.bytes for value in graph.values], [value.bytes for value in here.values])
    assert [op.type for op in graph.ops] == [op.type for op in here.ops]


@pytest.mark.parametrize("computes_half", [False, True])
@pytest.mark.parametrize("dtype", [tf.float16, tf.float32])
def test_onednn_leaves_half_precision_to_eigen_where_the_cpu_lacks_it(
    dtype: tf.DType, computes_half: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(op_kinds, "this_processor", lambda: Processor("a CPU", True, computes_half))
    with tf.Graph().as_default():
        pooled = tf.nn.max_pool2d(tf.zeros([1, 4, 4, 1], dtype), 2, 2, "VALID").op
    left = dtype == tf.float16 and not computes_half
    assert kernels_of(pooled, Kernels.ONEDNN) is (Kernels.EIGEN if left else Kernels.ONEDNN)
    assert keeps_argmax(pooled, Kernels.ONEDNN) is not left
    assert kernels_of(pooled, Kernels.CUDA) is Kernels.CUDA
