"""The libraries of kernels that TensorFlow runs a step with; each uses memory in its own way. Does not import TensorFlow."""

from __future__ import annotations

from enum import Enum


class Kernels(Enum):
    """``ONEDNN`` and ``EIGEN`` on a CPU, ``CUDA`` (cuDNN, cuBLAS and TensorFlow's own) on a GPU."""

    ONEDNN = "onednn"
    EIGEN = "eigen"
    CUDA = "cuda"
