"""Test that one allocator counts every tensor on every CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import tensorflow as tf

from checkmate.backends.tf.devices import (
    choose_device,
    has_meter,
    held_bytes,
    peak_bytes,
    reset_peak,
    settings_here,
)
from checkmate.backends.tf.environment import measuring_environment
from checkmate.errors import CheckmateError, MeterMissingError
from checkmate.request import ModelRequest
from tests.quick_start import QUICK
from tests.tf.fake_gpu import FakeGpu

SMALL = """
import json, tensorflow as tf
from checkmate.backends.tf.devices import settings_here
found = settings_here("cpu")
held = None
if found.metered_from is not None:
    from checkmate.backends.tf.devices import held_bytes
    before = held_bytes(found.meter)
    tensors = [tf.zeros((1000,)) + 1 for _ in range(100)]
    held = held_bytes(found.meter) - before
print(json.dumps({**found.facts(), "held": held}))
"""


def settings_of_a_process(onednn: str, *, prepared: bool) -> dict[str, object]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TF_CPU_")}
    environment |= {**QUICK, "TF_ENABLE_ONEDNN_OPTS": onednn}
    if prepared:
        environment |= measuring_environment()
    ran = subprocess.run(
        [sys.executable, "-c", SMALL], env=environment, capture_output=True, text=True, check=True
    )
    return dict(json.loads(ran.stdout.splitlines()[-1]))


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("onednn", "prepared", "kernels", "metered_from"),
    [
        ("0", True, "eigen", 0),
        ("1", True, "onednn", 0),
        ("0", False, "eigen", None),
        ("1", False, "onednn", 256 << 10),  # oneDNN's own allocator leaves small tensors out
    ],
)
def test_a_prepared_process_meters_the_smallest_tensors(
    onednn: str, prepared: bool, kernels: str, metered_from: int | None
) -> None:
    found = settings_of_a_process(onednn, prepared=prepared)
    assert (found["kernels"], found["metered_from"]) == (kernels, metered_from)
    if metered_from == 0:
        assert found["held"] >= 100 * 4000
    else:
        assert found["held"] == (None if metered_from is None else 0)


def test_these_tests_run_with_a_meter() -> None:
    found = settings_here("cpu")
    assert found.metered_from == 0 and found.meter == "CPU:0" and has_meter("CPU:0")
    reset_peak("CPU:0")
    before = held_bytes("CPU:0")
    tensor = tf.zeros((1 << 18,)) + 1
    assert peak_bytes("CPU:0") >= held_bytes("CPU:0") >= before + (1 << 20)
    del tensor


def test_a_missing_meter_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(device: str) -> None:
        raise ValueError(f"Cannot reset memory stats for device {device!r}")

    monkeypatch.setattr(tf.config.experimental, "reset_memory_stats", none)
    monkeypatch.setattr(tf.config.experimental, "get_memory_info", none)
    assert not has_meter("CPU:0")
    for ask in (reset_peak, peak_bytes, held_bytes):
        with pytest.raises(MeterMissingError, match="no memory meter for CPU:0") as raised:
            ask("CPU:0")
        assert "TF_CPU_ALLOCATOR_USE_BFC=true" in raised.value.hint


def test_a_measuring_process_may_use_all_memory_unless_the_user_says_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert int(measuring_environment()["TF_CPU_BFC_MEM_LIMIT_IN_MB"]) > 256
    monkeypatch.setenv("TF_CPU_BFC_MEM_LIMIT_IN_MB", "77")
    assert measuring_environment()["TF_CPU_BFC_MEM_LIMIT_IN_MB"] == "77"


def test_a_gpu_that_this_process_holds_cannot_be_given_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeGpu(monkeypatch, taken=True)
    with pytest.raises(CheckmateError, match="has already started with the GPU in this process") as raised:
        choose_device(ModelRequest("convnet"))
    assert "before TensorFlow is used" in raised.value.hint
