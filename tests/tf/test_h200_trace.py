"""Test the trace's reader on what TensorFlow wrote on a real GPU.

The trace is of an NVIDIA H200 (driver 580, cuDNN 9, TensorFlow 2.21): a matrix product, a convolution and its
gradient, an LSTM and its gradient. Kernels and memory events were kept.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from checkmate.backends.tf.profiler import StepTrace, read_trace

FILE = Path(__file__).parent / "data" / "h200-lstm-conv.xplane.pb.gz"
LSTM = "lstm_1_1/CudnnRNNV3"
TIME, BATCH, UNITS = 20, 16, 64


@pytest.fixture(scope="module")
def trace() -> StepTrace:
    return read_trace(xplane_pb2.XSpace.FromString(gzip.decompress(FILE.read_bytes())), "gpu")


def test_kernels_carry_the_name_of_their_op_on_every_stream(trace: StepTrace) -> None:
    names = {run.name for run in trace.runs}
    assert {"Conv2D", "gradient_tape/Conv2DBackpropFilter", "Relu", LSTM} <= names
    assert sum(run.name == LSTM for run in trace.runs) == 48
    assert all(0 < seconds < 1e-3 for seconds in trace.seconds_by_op.values())


def test_only_the_gpu_s_allocator_counts(trace: StepTrace) -> None:
    assert len(trace.memory) == 97 + 92  # of 277 events of three allocators
    held = trace.memory[0].in_use - trace.memory[0].allocated_bytes
    for event in trace.memory:
        held += event.allocated_bytes
        assert event.in_use == held


def test_scratch_is_told_from_outputs(trace: StepTrace) -> None:
    asked = [(event.requested_bytes, event.temporary) for event in trace.memory if event.op == "Conv2D"]
    assert (32 * 64 * 64 * 32 * 4, False) in asked
    assert (25_184_403, True) in asked


def test_an_lstm_asks_for_its_reserve_in_one_request(trace: StepTrace) -> None:
    output = TIME * BATCH * UNITS * 4
    asked = [event.requested_bytes for event in trace.memory if event.op == LSTM and not event.temporary]
    assert 5 * output + 256 in asked
