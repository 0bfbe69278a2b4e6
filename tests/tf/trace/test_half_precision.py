"""Test whose kernels run ops in half precision."""

from __future__ import annotations

import pytest
import tensorflow as tf

from checkmate.backends.tf.devices import Kernels
from checkmate.backends.tf.trace import op_kinds
from checkmate.backends.tf.trace.op_kinds import keeps_argmax, kernels_of
from checkmate.machine.processor import Processor


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
