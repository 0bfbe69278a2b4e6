"""Name the kernel libraries that TensorFlow runs a step with.

Each uses memory in its own way. This module does not import TensorFlow.
"""

from __future__ import annotations

from enum import Enum


class Kernels(Enum):
    """Name a library of kernels.

    ``ONEDNN`` and ``EIGEN`` run on a CPU, ``CUDA`` (cuDNN, cuBLAS and TensorFlow's own kernels) on a GPU.
    """

    ONEDNN = "onednn"
    EIGEN = "eigen"
    CUDA = "cuda"
