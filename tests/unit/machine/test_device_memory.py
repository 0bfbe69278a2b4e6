from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from checkmate.machine.device_memory import (
    Gpu,
    chosen,
    free_bytes,
    gpu_in_use,
    gpu_number,
    group_limits,
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


ROOT = Path(__file__).resolve().parents[3]


def test_without_limits_it_is_the_machines_memory() -> None:
    import psutil

    free = free_bytes("cpu")
    assert free is not None and 0 < free <= psutil.virtual_memory().total


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
@pytest.mark.parametrize("limit", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_a_limit_of_the_process_counts(limit: str) -> None:
    code = (
        f"import resource; resource.setrlimit(resource.{limit}, ({GIB}, {GIB}))\n"
        "from checkmate.machine.device_memory import free_bytes; print(free_bytes('cpu'))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert 0 < int(done.stdout) < GIB


def group(folder: Path, limit: str, used: int, cached: int, names: tuple[str, str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 1\n{names[2]} {cached}\n")


def test_control_groups_of_both_versions(tmp_path: Path) -> None:
    two = ("memory.max", "memory.current", "inactive_file")
    group(tmp_path / "a", str(6 * GIB), 5 * GIB, GIB, two)
    group(tmp_path / "a" / "b", "max", 5 * GIB, 0, two)
    assert list(group_limits("0::/a/b\n", tmp_path)) == [2 * GIB]
    one = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    group(tmp_path / "memory" / "job", str(4 * GIB), GIB, 0, one)
    group(tmp_path / "memory", str(2**63 - 4096), GIB, 0, one)  # no limit
    assert list(group_limits("8:pids:/\n4:memory:/job\n0::/\n", tmp_path)) == [3 * GIB]


def test_in_a_container_the_group_is_mounted_at_the_top(tmp_path: Path) -> None:
    group(tmp_path, str(3 * GIB), GIB, 0, ("memory.max", "memory.current", "inactive_file"))
    assert list(group_limits("0::/host/path/of/it\n", tmp_path)) == [2 * GIB]
    assert list(group_limits("", tmp_path)) == list(group_limits("nonsense", tmp_path)) == []
