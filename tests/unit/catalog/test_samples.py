"""Test that samples can be named without TensorFlow."""

from __future__ import annotations

import json
import subprocess
import sys

from checkmate.catalog.samples import SAMPLES, find_sample


def test_samples_are_named_and_described() -> None:
    assert [sample.name for sample in SAMPLES] == ["unet", "resnet", "mobilenet", "transformer", "lstm"]
    assert all(sample.description and sample.batch_size <= 32 for sample in SAMPLES)


def test_find_sample() -> None:
    found = find_sample("unet")
    assert found is not None and found.name == "unet"
    assert find_sample("UNet") is None


def test_rows_are_json() -> None:
    row = json.loads(json.dumps(SAMPLES[0].to_json()))
    assert row["kind"] == "model"
    assert row["input_shape"] == [128, 128, 3]


def test_naming_samples_loads_no_tensorflow() -> None:
    code = "import sys, checkmate.catalog.samples; print(sorted({'tensorflow', 'keras'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
