from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

pytestmark = pytest.mark.heavy  # each looks at the machine in processes of their own

ROOT = Path(__file__).resolve().parents[2]
ABORTS = "import os\nos.abort()\n"


def doctor(
    *arguments: str, stubs: Path | None = None, environment: dict[str, str] | None = None, **options: Any
) -> Any:
    """Run ``checkmate doctor`` and return the finished process.

    ``stubs``: a folder whose packages come before the installed ones.
    """
    path = os.pathsep.join(str(part) for part in (stubs, ROOT) if part is not None)
    return subprocess.run(
        [sys.executable, "-m", "checkmate", "doctor", *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "100", **(environment or {})},
        **options,
    )


def stub(folder: Path, name: str, code: str) -> Path:
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(code)
    return folder


def states(said: str) -> dict[str, str]:
    return {line["name"]: line["state"] for line in json.loads(said)["lines"]}


def text(said: str, name: str) -> str:
    return next(line["text"] for line in json.loads(said)["lines"] if line["name"] == name)


@pytest.mark.parametrize("onednn", ["0", pytest.param("1", marks=pytest.mark.heavy)])
def test_this_machine_can_do_the_main_job(onednn: str) -> None:
    pytest.importorskip("tensorflow")
    done = doctor("--json", environment={"TF_ENABLE_ONEDNN_OPTS": onednn})
    assert done.returncode == 0, done.stdout + done.stderr
    found = states(done.stdout)
    for name in ("python", "tensorflow", "keras", "kernels", "meter", "profiler", "solvers", "temporary"):
        assert found[name] == "ok", text(done.stdout, name)
    facts = json.loads(done.stdout)["facts"]
    if facts["tensorflow"]["found"]["settings"]["kind"] == "cpu":
        wanted = {"0": "Eigen", "1": "oneDNN"}[onednn]
        assert f"{wanted}'s kernels, by TF_ENABLE_ONEDNN_OPTS={onednn}" in text(done.stdout, "kernels")


def test_a_tensorflow_that_crashes_is_a_line(tmp_path: Path) -> None:
    done = doctor(stubs=stub(tmp_path, "tensorflow", ABORTS), environment={"CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode == 1
    assert (
        "missing TensorFlow   TensorFlow ended its process while it was imported (SIGABRT, abort)."
        in done.stdout
    )
    assert "cannot run here yet: see TensorFlow." in done.stdout
    assert "ok      Solvers" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


@pytest.mark.heavy
def test_a_tensorflow_that_hangs_is_a_line(tmp_path: Path) -> None:
    stubs = stub(tmp_path, "tensorflow", "import time\ntime.sleep(600)\n")
    done = doctor("--json", "--time-limit", "20", stubs=stubs)
    assert done.returncode == 1
    assert text(done.stdout, "tensorflow") == "TensorFlow gave no answer within 20 s while it was imported."


@pytest.mark.heavy
def test_a_gpu_that_crashes_tensorflow_is_hidden_from_a_second_look(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    code = f"""
import os, sys
if os.environ.get("CUDA_VISIBLE_DEVICES") != "-1":
    os.kill(os.getpid(), 11)
sys.path.remove({str(tmp_path)!r})
del sys.modules["tensorflow"]
import tensorflow
"""
    stub(tmp_path, "tensorflow", code)
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'Tesla T4, 15360, 15000, 535.1, 7.5, Default'\n")
    tool.chmod(0o755)
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    done = doctor("--json", stubs=tmp_path, environment={"PATH": path})
    assert done.returncode == 1
    assert "SIGSEGV, segmentation fault" in text(done.stdout, "tensorflow")
    lines = {line["name"]: line for line in json.loads(done.stdout)["lines"]}
    assert lines["tensorflow"]["mend"].startswith("CUDA_VISIBLE_DEVICES=-1 checkmate")
    assert "Tesla T4 is there" in lines["gpu"]["text"]


def test_tensorflow_and_qt_are_missing(tmp_path: Path) -> None:
    for name in ("tensorflow", "PySide6"):
        stub(tmp_path, name, f"raise ModuleNotFoundError({f'No module named {name!r}'!r}, name={name!r})\n")
    done = doctor("--json", stubs=tmp_path)
    assert done.returncode == 1
    assert text(done.stdout, "tensorflow") == "TensorFlow is not installed."
    assert text(done.stdout, "window") == "Qt is not installed."


def test_a_qt_that_crashes_and_one_without_its_system_libraries(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    stub(tmp_path / "one", "tensorflow", ABORTS)  # this is not asked here, and takes long
    stub(tmp_path / "other", "tensorflow", ABORTS)
    done = doctor("--json", stubs=stub(tmp_path / "one", "PySide6", ABORTS))
    assert text(done.stdout, "window") == "Qt ended its process while it was imported (SIGABRT, abort)."
    error = "libEGL.so.1: cannot open shared object file: No such file or directory"
    done = doctor("--json", stubs=stub(tmp_path / "other", "PySide6", f"raise ImportError({error!r})\n"))
    assert text(done.stdout, "window") == "Qt needs the system library libEGL.so.1, which is not there."


def test_a_numpy_that_cannot_be_imported(tmp_path: Path) -> None:
    """Test that the doctor still answers. Every other command needs numpy, even to parse its arguments."""
    stub(tmp_path, "tensorflow", ABORTS)
    stubs = stub(tmp_path, "numpy", "raise ImportError('libopenblas.so.0 is not there')\n")
    done = doctor("--json", stubs=stubs)
    assert done.returncode == 1, done.stderr
    assert states(done.stdout)["solvers"] == "missing" and "libopenblas" in text(done.stdout, "solvers")
    (stubs / "rich").mkdir()
    (stubs / "rich" / "__init__.py").write_text("raise ImportError('rich is broken')\n")
    bare = doctor(stubs=stubs)
    assert bare.returncode == 2 and "Traceback" not in bare.stderr and "rich is broken" in bare.stderr
    shutil.rmtree(stubs / "rich")
    other = subprocess.run(
        [sys.executable, "-m", "checkmate", "list", "models"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(stubs), str(ROOT)])},
    )
    assert other.returncode == 2 and "Traceback" not in other.stderr
    assert "libopenblas" in other.stderr and "run checkmate doctor: it says what is broken" in other.stderr


def test_a_cache_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    done = doctor(
        "--json",
        stubs=stub(tmp_path, "tensorflow", ABORTS),
        environment={"XDG_CACHE_HOME": str(tmp_path / "cache")},
    )
    assert states(done.stdout)["cost-cache"] == "limited" and "is a file" in text(done.stdout, "cost-cache")


def test_ctrl_c_ends_it_at_once_and_leaves_nothing_running(tmp_path: Path) -> None:
    stubs = stub(tmp_path, "tensorflow", "import time\ntime.sleep(600)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "checkmate", "doctor"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(stubs), str(ROOT)])},
    )
    own = psutil.Process(process.pid)
    until = time.monotonic() + 120
    while not (children := own.children(recursive=True)) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130 and not out and b"interrupted" in err
    assert children and not psutil.wait_procs(children, timeout=20)[1]
