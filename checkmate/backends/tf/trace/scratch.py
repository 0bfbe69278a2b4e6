"""Compute the scratch memory of TensorFlow's CPU kernels by formula.

It is known so before any step was measured. The formulas are from ``conv_grad_filter_ops.cc``
(Conv2DCustomBackpropFilterOp), ``conv_grad_input_ops.h`` (Conv2DCustomBackpropInputOp) and
``maxpooling_op.cc`` (MaxPoolingGradOp) of TensorFlow 2.21. What a profile measures beyond that is learned
(``backends.tf.allocator.learn``). The kernels of oneDNN and of a GPU are known from measurements alone.
"""

from __future__ import annotations

import math

import tensorflow as tf

from checkmate.backends.tf.devices import Kernels
from checkmate.backends.tf.trace.op_kinds import kernels_of
from checkmate.machine.load import usable_cores

_WORKING_SET = 30 << 20  # bytes of image patches that a convolution's gradient works on at once
_LEAST_WORK = 256 << 10  # bytes per thread: with less, several images are worked on side by side
_INDEX = 8  # bytes of a position that max pooling's gradient finds again


def scratch_bytes(op: tf.Operation, kernels: Kernels) -> int:
    """Return the bytes that ``op`` holds only while it runs.

    Its inputs and outputs do not count. 0 where no formula is known.
    """
    if kernels_of(op, kernels) is not Kernels.EIGEN or not all(
        tensor.shape.is_fully_defined() for tensor in op.outputs
    ):
        return 0
    if op.type == "Conv2DBackpropFilter" and op.inputs[2].shape.is_fully_defined():
        return _filter_gradient(op.inputs[2], op.outputs[0])
    if op.type == "Conv2DBackpropInput" and op.inputs[1].shape.is_fully_defined():
        return _input_gradient(op.inputs[2], op.inputs[1])
    if op.type == "MaxPoolGrad" and op.inputs[1].shape.is_fully_defined():
        # A copy of what was pooled is not counted: it is made only if that does not die here, which is rare.
        return int(op.inputs[1].shape.num_elements()) * _INDEX
    return 0


def _filter_gradient(gradient: tf.Tensor, kernel: tf.Tensor) -> int:
    """Return the bytes of the patches of the images that fill the working set."""
    patches, work = _sizes(gradient, kernel)
    size = int(gradient.dtype.size)
    return int(-(-(_WORKING_SET // size) // work) * patches * size)


def _input_gradient(gradient: tf.Tensor, kernel: tf.Tensor) -> int:
    """Return the bytes of the patches of the images worked on at once.

    They are as many as fill the working set where images are worked on side by side, else one.
    """
    patches, work = _sizes(gradient, kernel)
    size = int(gradient.dtype.size)
    one_by_one = gradient.shape[0] == 1 or work // _threads() >= _LEAST_WORK // size
    images = 1 if one_by_one else -(-(_WORKING_SET // size) // work)
    return int(images * patches * size)


def _sizes(gradient: tf.Tensor, kernel: tf.Tensor) -> tuple[int, int]:
    """Return the elements of one image's patches, and of its matrix product.

    The product counts with both factors and the result.
    """
    _, height, width, out = gradient.shape
    image, window = height * width, math.prod(kernel.shape[:3])
    patches = image * window
    return patches, patches + image * out + window * out


def _threads() -> int:
    """Return how many threads TensorFlow runs one op with."""
    chosen = int(tf.config.threading.get_intra_op_parallelism_threads())
    return chosen or usable_cores()
