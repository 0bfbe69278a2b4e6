"""Test which line of nvidia-smi is the GPU that TensorFlow uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkmate.machine.device_memory import (
    Gpu,
    chosen,
    free_bytes,
    gpu_in_use,
    gpu_number,
    is_device,
    listed,
    only,
)

GIB = 2**30
SAID = """\
0, GPU-aaaa1111-0, NVIDIA T4, 15360, 15000
1, GPU-bbbb2222-0, NVIDIA A100-SXM4-40GB, 40960, 1024
2, GPU-cccc3333-0, NVIDIA T4, 15360, [N/A]
"""
MIXED = listed(SAID)
TWINS = (MIXED[0], MIXED[2])
ORDERED = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def test_lines_are_read_and_others_are_left_out() -> None:
    assert [gpu.index for gpu in MIXED] == [0, 1, 2]
    assert MIXED[1] == Gpu(1, "GPU-bbbb2222-0", "NVIDIA A100-SXM4-40GB", 40 * GIB, GIB)
    assert MIXED[2].free_bytes is None
    assert (
        listed("") == listed("NVIDIA-SMI has failed because it couldn't communicate with the driver\n") == ()
    )


@pytest.mark.parametrize(
    ("environment", "number", "found"),
    [
        (ORDERED, 1, 1),
        (ORDERED, 3, None),
        ({**ORDERED, "CUDA_VISIBLE_DEVICES": "2,1"}, 0, 2),
        ({**ORDERED, "CUDA_VISIBLE_DEVICES": "2, 1"}, 1, 1),
        ({**ORDERED, "CUDA_VISIBLE_DEVICES": "2,1"}, 2, None),
        ({"CUDA_VISIBLE_DEVICES": "GPU-bbbb"}, 0, 1),
        ({"CUDA_VISIBLE_DEVICES": "GPU-nobody,GPU-bbbb"}, 1, None),
        ({**ORDERED, "CUDA_VISIBLE_DEVICES": "1,-1,2"}, 1, None),
        ({**ORDERED, "CUDA_VISIBLE_DEVICES": "7,1"}, 1, None),
        ({"CUDA_VISIBLE_DEVICES": ""}, 0, None),
        ({"CUDA_VISIBLE_DEVICES": "MIG-1-2-3"}, 0, None),
        ({}, 0, None),  # CUDA puts the fastest first, and nothing says which that is
    ],
)
def test_visible_devices_say_which_gpu_is_meant(
    environment: dict[str, str], number: int, found: int | None
) -> None:
    gpu = chosen(MIXED, number, "", environment)
    assert (None if gpu is None else gpu.index) == found


def test_different_gpus_are_told_apart_by_name() -> None:
    assert chosen(MIXED, 0, "NVIDIA A100-SXM4-40GB", {}) is MIXED[1]
    assert chosen(MIXED, 0, "NVIDIA A100-SXM4-40GB", {**ORDERED, "CUDA_VISIBLE_DEVICES": "0"}) is MIXED[1]
    assert chosen(MIXED, 1, "NVIDIA T4", {}) is None  # which of the two?
    assert chosen(TWINS, 1, "NVIDIA T4", {}) is MIXED[2]


@pytest.mark.parametrize(
    ("device", "number"), [(None, 0), ("cpu", 0), ("gpu", 0), ("gpu:0", 0), ("gpu:3", 3)]
)
def test_devices_have_numbers(device: str | None, number: int) -> None:
    assert gpu_number(device) == number
    assert device is None or is_device(device)


@pytest.mark.parametrize("device", ["", "GPU", "gpu:", "gpu:-1", "gpu1", "tpu", "gpu:1,2"])
def test_texts_that_name_no_device(device: str) -> None:
    assert not is_device(device)


def test_one_gpu_of_those_that_are_visible() -> None:
    assert only(1, {}) == "1"
    assert only(1, {"CUDA_VISIBLE_DEVICES": "4, GPU-aaaa"}) == "GPU-aaaa"


def _nvidia_smi(folder: Path, script: str) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)


def test_nvidia_smi_is_asked_about_the_gpu_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _nvidia_smi(tmp_path, f"[ \"$2\" = --format=csv,noheader,nounits ] || exit 1\ncat <<'EOF'\n{SAID}EOF")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
    assert gpu_in_use(0) == MIXED[1]
    assert free_bytes("gpu") == GIB
    assert free_bytes("gpu", 1) == 15000 * 2**20
    assert free_bytes("gpu", 2) is None


def test_without_nvidia_smi_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu_in_use(0) is None and free_bytes("gpu") is None
    _nvidia_smi(tmp_path, "exit 9")
    assert gpu_in_use(0) is None
