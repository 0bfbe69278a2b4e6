"""Test free memory under limits of the process and its control group."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from checkmate.machine.device_memory import free_bytes, group_limits

ROOT = Path(__file__).resolve().parents[3]
GIB = 2**30


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
