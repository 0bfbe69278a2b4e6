"""Write the script that shows how to train with an export.

It needs TensorFlow alone. It knows what the step was measured with, and says where that is another here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from checkmate.backends.tf.emit.saved_model import argument_specs
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.request import Target

_EXAMPLE = '''\
"""Train with the exported step: TensorFlow alone, random data. Replace `batch()` with your own data."""

import os
import sys
from pathlib import Path

import numpy as np

# On a CPU, only this allocator counts every byte; TensorFlow reads it when it is imported.
os.environ.setdefault("TF_CPU_ALLOCATOR_USE_BFC", "true")

import tensorflow as tf

ARGUMENTS = {arguments}
# What the step was measured with. Other kernels need other scratch memory.
MEASURED_WITH = {measured_with}
WORDS = {{"kernels": "the kernels", "tensorflow": "TensorFlow"}}


def batch(random):
    tensors = []
    for name, shape, dtype, low, high in ARGUMENTS:
        if np.issubdtype(np.dtype(dtype), np.floating):
            values = random.uniform(low, high, shape)
        else:
            values = random.integers(int(low), int(high) + 1, shape)
        tensors.append(tf.constant(values.astype(dtype), name=name))
    return tensors


def peak_of(run, device):
    """Run once; return what it returned, and the peak in words."""
    try:
        tf.config.experimental.reset_memory_stats(device)
    except ValueError:  # another allocator was chosen outside, which counts nothing
        return run(), "not metered"
    found = run()
    return found, f"{{tf.config.experimental.get_memory_info(device)['peak'] / 2**20:.1f}} MiB"


def kernels_here():
    """Return the kernels that run here; None where TensorFlow does not tell."""
    if tf.config.list_physical_devices("GPU"):
        return "cuda"
    try:
        from tensorflow.python.util import _pywrap_util_port

        return "onednn" if _pywrap_util_port.IsMklEnabled() else "eigen"
    except (ImportError, AttributeError):
        return None


def differs():
    """Say in one sentence what is not as it was measured; empty if nothing."""
    here = {{"kernels": kernels_here(), "tensorflow": tf.__version__}}
    known = [name for name in here if here[name] and MEASURED_WITH[name]]
    other = [name for name in known if here[name] != MEASURED_WITH[name]]
    was, now = (", ".join(f"{{WORDS[name]}} {{of[name]}}" for name in other) for of in (MEASURED_WITH, here))
    return other and f"this step was measured with {{was}}; here it runs with {{now}}, so its peak may differ"


def numbers(found):
    return {{name: float(value) for name, value in found.items() if value.shape.rank == 0}}


def main(steps=3):
    folder = Path(__file__).resolve().parent / "saved_model"
    model = tf.saved_model.load(str(folder))  # keep it: the variables live with it
    device = "GPU:0" if tf.config.list_physical_devices("GPU") else "CPU:0"
    if other := differs():
        print(f"note: {{other}}", file=sys.stderr)
    random = np.random.default_rng(0)
    data = batch(random)
    for step in range(steps):
        found, peak = peak_of(lambda: numbers(model.train_step(*data)), device)
        told = "".join(f"{{name}} {{value:.4f}}, " for name, value in found.items())
        print(f"step {{step}}: {{told}}peak {{peak}}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
'''


def example_script(folded: FoldedStep, batch: Sequence[tf.Tensor]) -> str:
    """Return a short training script for the exported step.

    It trains on random data in the ranges of ``batch``, and says where kernels or TensorFlow are not those
    that the step was measured with.
    """
    rows = []
    for spec, tensor in zip(argument_specs(folded), batch, strict=True):
        values = tensor.numpy().astype(np.float64)
        low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
        dtype = "float32" if spec.dtype == tf.bfloat16 else spec.dtype.name
        rows.append((spec.name, tuple(spec.shape.as_list()), dtype, low, high))
    listed = "\n".join(f"    {row!r}," for row in rows)
    origin = folded.graph.origin
    kernels = None if origin.target == Target.XLA else origin.kernels or None  # XLA has its own
    measured_with = {"kernels": kernels, "tensorflow": origin.tensorflow or None}
    return _EXAMPLE.format(arguments=f"[\n{listed}\n]", measured_with=repr(measured_with))
