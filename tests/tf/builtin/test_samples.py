"""Test that the bundled samples and the applications can be trained."""

from __future__ import annotations

import numpy as np
import pytest

from checkmate.backends.tf.trace.sizes import variable_bytes
from checkmate.backends.tf.trace.trace import step_function
from checkmate.catalog.samples import SAMPLES, Sample
from tests.tf.conftest import load

pytestmark = pytest.mark.heavy  # many tests of a second or two

SMALL = {
    "unet": (32, 32, 3),
    "resnet": (32, 32, 3),
    "mobilenet": (32, 32, 3),
    "transformer": (16,),
    "lstm": (8, 6),
}


LARGE = ("resnet", "mobilenet", "transformer")


@pytest.mark.parametrize(
    "sample",
    [
        pytest.param(sample, id=sample.name, marks=[pytest.mark.heavy] if sample.name in LARGE else [])
        for sample in SAMPLES
    ],
)
def test_sample_takes_a_step_at_another_size(sample: Sample) -> None:
    loaded = load(sample.name, input_shape=SMALL[sample.name], batch_size=2)
    assert loaded.name == loaded.model.name == sample.name
    assert loaded.notes == ()
    before = loaded.model.trainable_variables[-1].numpy().copy()
    assert np.isfinite(float(step_function(loaded)(*loaded.make_batch())[0]))
    assert (loaded.model.trainable_variables[-1].numpy() != before).any()


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_activations_outweigh_what_is_fixed(sample: Sample) -> None:
    loaded = load(sample.name, batch_size=sample.batch_size)
    assert loaded.input_specs[0].shape == (sample.batch_size, *sample.input_shape)
    fixed = variable_bytes(loaded.model.variables) + variable_bytes(loaded.model.optimizer.variables)
    outputs = [layer.output for layer in loaded.model.layers]
    sizes = [4 * int(np.prod((sample.batch_size, *tensor.shape[1:]))) for tensor in outputs]
    assert sum(sizes) > fixed
    assert sum(size for size in sizes if size >= 256 * 1024) > 0.9 * sum(sizes)


def test_application_is_built_uncompiled_at_the_requested_shape() -> None:
    loaded = load("keras.applications.MobileNetV2", input_shape=(32, 32, 3), batch_size=2)
    assert loaded.name == "MobileNetV2"
    assert loaded.input_specs[0].shape == (2, 32, 32, 3)
    assert loaded.labels.kinds == ("one_hot",)
    assert loaded.notes == ("not compiled: categorical crossentropy and Adam are used",)


def test_mixed_precision_scales_the_loss() -> None:
    loaded = load("lstm", input_shape=(8, 6), mixed_precision="mixed_float16")
    assert loaded.notes == ("built under the dtype policy mixed_float16",)
    assert loaded.model.get_layer("wide").compute_dtype == "float16"
    assert type(loaded.model.optimizer).__name__ == "LossScaleOptimizer"
