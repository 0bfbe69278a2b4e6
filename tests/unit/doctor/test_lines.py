from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from checkmate.doctor.diagnosis import (
    Diagnosis,
    Facts,
    Folder,
    Host,
    Library,
    Line,
    ListedCard,
    Nvidia,
    PartState,
)
from checkmate.doctor.lines import diagnose
from checkmate.doctor.look import cards_of
from checkmate.doctor.tensorflow_lines import missing_libraries
from checkmate.processes.stages import Probe

OK, LIMITED, MISSING = PartState
GIB, MIB = 2**30, 2**20
BUILD = {"version": "2.21.0", "is_cuda_build": True, "cuda_version": "12.5.1", "cudnn_version": "9"}
KERAS = {"version": "3.15.1", "backend": "tensorflow", "policy": "float32"}
CPU = {"kind": "cpu", "kernels": "onednn", "metered_from": 0}
FOUND: dict[str, Any] = {
    "tensorflow": BUILD,
    "keras": KERAS,
    "gpus": [],
    "program": "checkmate.planning.stages",
    "settings": {"kind": "cpu", "kernels": "onednn", "metered_from": 0},
    "profiler": {"ops": 4, "allocations": 4},
    "xla": "compiled",
}
SCREEN = {"platform": "xcb", "size": [2560, 1440]}
WINDOW = {"qt": "6.9.1", "plugin": [], "widgets": True, "plotting": "0.14", "screen": SCREEN}
HEALTHY = Facts(
    host=Host("CPython 3.11.7", "/usr/bin/python3", "Debian 12", "A processor", True, 8, 32 * GIB, 20 * GIB),
    version="0.1.0",
    libraries=(
        Library("numpy", ">=1.26", "2.1.0", True),
        Library("tensorflow", "<2.22,>=2.21", "2.21.0", True),
    ),
    tensorflow=Probe(FOUND, seconds=4.0),
    without_gpu=None,
    solvers=Probe(
        dict.fromkeys(("numpy", "llvmlite", "highspy", "pulp", "ortools.sat.python.cp_model"), "1")
    ),
    window=Probe(WINDOW),
    nvidia=Nvidia(installed=False),
    cuda_packages=(),
    folders=(Folder("cost-cache", "Cost cache", "/home/a/.cache/costs", 3 * MIB, 2**40),),
    environment={"DISPLAY": ":0"},
)
CARD = ListedCard("NVIDIA T4", 15 * GIB, 14 * GIB, "550.54", "7.5")
WITH_CARD = replace(HEALTHY, nvidia=Nvidia(True, (CARD,), cuda="12.4"))
GPU = {
    "gpus": [{"name": "NVIDIA T4", "capability": [7, 5]}],
    "settings": {"kind": "gpu", "kernels": "cuda", "metered_from": 0},
}
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"
BUSY = "InternalError: CUDA_ERROR_DEVICE_UNAVAILABLE: CUDA-capable device(s) is/are busy or unavailable"
NO_CUDNN = """W dso_loader.cc:144] Could not load dynamic library 'libcudnn.so.9'; dlerror: libcudnn.so.9:
    cannot open shared object file: No such file or directory
    W dso_loader.cc:144] Could not load dynamic library 'libnvinfer.so.8'; dlerror: no
    W gpu_device.cc:2342] Cannot dlopen some GPU libraries."""


def line(facts: Facts, name: str) -> Line:
    return next(one for one in diagnose(facts, 1.0).lines if one.name == name)


def tensorflow(facts: Facts = HEALTHY, without: str = "", **changed: Any) -> Facts:
    """Return ``facts`` with another child process of TensorFlow's.

    ``without``: stages that it did not find. ``changed``: fields of ``Probe``, or what a stage found.
    """
    fields = {
        name: changed.pop(name) for name in ("errors", "stage", "code", "log", "seconds") if name in changed
    }
    found = {name: value for name, value in (FOUND | changed).items() if name not in without.split()}
    return replace(facts, tensorflow=replace(facts.tensorflow, found=found, **fields))


def crashed(code: int | None, stage: str, facts: Facts = HEALTHY) -> Facts:
    return tensorflow(facts, " ".join(FOUND), code=code, stage=stage, seconds=90.0)


def failed(stage: str, error: str, without: str = "", facts: Facts = HEALTHY) -> Facts:
    return tensorflow(facts, f"{stage} {without}", errors={stage: error})


def window(environment: dict[str, str] | None = None, **probe: Any) -> Facts:
    return replace(HEALTHY, window=Probe(**probe), environment=environment or {})


def cuda(installed: str) -> Facts:
    return replace(WITH_CARD, cuda_packages=(Library("nvidia-cudnn-cu12", "==9.3", installed, False),))


def keras(**changed: str) -> Facts:
    return tensorflow(keras={**KERAS, **changed})


def folder(name: str, path: str = "/x", free: int = 2**40, problem: str = "") -> Facts:
    return replace(HEALTHY, folders=(Folder(name, "Title", path, 0, free, problem=problem),))


ILL = crashed(-4, "tensorflow")
TORCH = "ModuleNotFoundError: No module named 'torch'"
QT_6 = {"qt": "6.9", "plugin": []}
NO_PLUGIN = 'Could not find the Qt platform plugin "x" in ""'
EGL = "ImportError: libEGL.so.1: cannot open shared object file: No such file or directory"
CURSOR = ["libxcb-cursor.so.0", "libxcb-icccm.so.4"]
OFFSCREEN = {**WINDOW, "screen": {"platform": "offscreen", "size": [800, 800]}}
WRONG = (Library("numba", ">=0.60", "0.55", False), Library("rich", ">=13", "", False))

# Facts, and of one line: its name, its state, a part of its text and of what mends it.
CASES: list[tuple[Facts, str, PartState, str, str]] = [
    (HEALTHY, "gpu", LIMITED, "No GPU here (no nvidia-smi)", "[cuda]"),
    (
        failed("tensorflow", "E: No module named 'tensorflow'"),
        "tensorflow", MISSING, "not installed", "pip install",
    ),
    (ILL, "tensorflow", MISSING, "while it was imported (SIGILL, illegal instruction)", "pip"),
    (crashed(-11, "gpus"), "tensorflow", MISSING, "for GPUs (SIGSEGV, segmentation fault)", "pip"),
    (crashed(-6, "settings"), "tensorflow", MISSING, "while it started (SIGABRT, abort)", "pip"),
    (
        crashed(None, "tensorflow"),
        "tensorflow", MISSING, "no answer within 90 s while it was imported", "300",
    ),
    (crashed(3, "xla"), "tensorflow", MISSING, "while XLA compiled (exit code 3)", "pip"),
    (replace(ILL, host=replace(HEALTHY.host, avx=False)), "tensorflow", MISSING, "SIGILL", "no AVX"),
    (
        replace(crashed(-11, "gpus", WITH_CARD), without_gpu=Probe(FOUND)),
        "tensorflow", MISSING, "GPUs", "CUDA_VISIBLE_DEVICES=-1 checkmate",
    ),
    (
        failed("program", "ImportError: x", "settings"),
        "tensorflow", MISSING, "cannot work with TensorFlow 2.21.0", "pip",
    ),
    (
        replace(HEALTHY, libraries=(Library("tensorflow", "<2.22", "2.30.0", False),)),
        "tensorflow", LIMITED, "not tested", "pip install 'tensorflow<2.22'",
    ),
    (keras(backend="torch"), "keras", MISSING, "the backend torch", "KERAS_BACKEND=tensorflow"),
    (failed("keras", TORCH, "program"), "keras", MISSING, "the backend torch", "KERAS_BACKEND=tensorflow"),
    (
        failed("keras", "E: Unable to import backend : torch"),
        "keras", MISSING, "the backend torch", "KERAS_BACKEND",
    ),
    (keras(backend="jax"), "keras", OK, "set up for JAX", ""),
    (failed("keras", "x: No module named 'jax'"), "keras", MISSING, "JAX, which is not installed", "[jax]"),
    (keras(version="2.15"), "keras", MISSING, "2.15 is too old", "pip install --upgrade keras"),
    (
        tensorflow(settings={**CPU, "metered_from": None}),
        "meter", MISSING, "no peak can be measured", "unset",
    ),
    (tensorflow(settings={**CPU, "metered_from": 256 << 10}), "meter", LIMITED, "256 KiB", "USE_BFC"),
    (tensorflow(), "meter", OK, "Counts every tensor", ""),
    (
        replace(HEALTHY, environment={"TF_ENABLE_ONEDNN_OPTS": "1"}),
        "kernels", OK, "oneDNN's kernels, by TF_EN", "",
    ),
    (tensorflow(profiler={"ops": 0, "allocations": 4}), "profiler", LIMITED, "no ops", "--costs analytic"),
    (
        tensorflow(profiler={"ops": 4, "allocations": 0}),
        "profiler", LIMITED, "no allocations", "--costs analytic",
    ),
    (failed("profiler", "UnavailableError: no"), "profiler", LIMITED, "UnavailableError", "--costs analytic"),
    (failed("xla", "InternalError: no ptxas"), "xla", LIMITED, "ptxas", "jit_compile=False"),
    (tensorflow(WITH_CARD, **GPU), "gpu", OK, "NVIDIA T4: 15.0 GiB, 14.0 GiB of it free; driver 550.54", ""),
    (
        replace(tensorflow(**GPU), nvidia=Nvidia(True, (replace(CARD, free_bytes=GIB),), cuda="12.4")),
        "gpu", LIMITED, "1.00 GiB of it free", "nvidia-smi",
    ),
    (
        tensorflow(WITH_CARD, "settings profiler", errors={"settings": BUSY}, gpus=GPU["gpus"]),
        "gpu", MISSING, "taken by another process", "--device cpu",
    ),
    (
        tensorflow(WITH_CARD, "settings profiler", errors={"settings": BUSY}, gpus=GPU["gpus"]),
        "meter", MISSING, "cannot start on its device", "checkmate doctor again",
    ),
    (
        tensorflow(WITH_CARD, "", **GPU | {"profiler": {"ops": 0, "allocations": 9}}),
        "profiler", LIMITED, "CUPTI reported none", "brings CUPTI",
    ),
    (
        tensorflow(
            WITH_CARD, "", log="E cupti: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES",
            **GPU | {"profiler": {"ops": 0, "allocations": 9}},
        ),
        "profiler", LIMITED, "may not read the GPU's counters", "SYS_ADMIN",
    ),
    (tensorflow(WITH_CARD, log=NO_CUDNN), "gpu", LIMITED, "does not find libcudnn.so.9.", "[cuda]"),
    (
        replace(WITH_CARD, environment={"CUDA_VISIBLE_DEVICES": ""}),
        "gpu", LIMITED, "hidden by CUDA_VISIBLE", "unset",
    ),
    (
        tensorflow(WITH_CARD, tensorflow={**BUILD, "is_cuda_build": False}),
        "gpu", LIMITED, "built without CUDA", "tensorflow-cpu",
    ),
    (
        replace(WITH_CARD, nvidia=Nvidia(True, (CARD,), cuda="11.4")),
        "gpu", LIMITED, "550.54 (CUDA 11.4 at most) is too old", "newer",
    ),
    (
        tensorflow(WITH_CARD, log="CUDA driver version is insufficient for CUDA runtime version"),
        "gpu", LIMITED, "too old", "newer",
    ),
    (cuda(""), "gpu", LIMITED, "nvidia-cudnn-cu12 is not installed", "[cuda]"),
    (cuda("8.9"), "gpu", LIMITED, "nvidia-cudnn-cu12 is 8.9, not ==9.3", "[cuda]"),
    (WITH_CARD, "gpu", LIMITED, "does not say why", "VLOG"),
    (replace(HEALTHY, nvidia=Nvidia(True)), "gpu", LIMITED, "lists no card", "--gpus all"),
    (replace(HEALTHY, nvidia=Nvidia(True, problem=MISMATCH)), "gpu", LIMITED, "version mismatch", "reboot"),
    (crashed(-6, "gpus", WITH_CARD), "gpu", LIMITED, "TensorFlow could not be asked", "TensorFlow's line"),
    (window(errors={"qt": EGL}), "window", MISSING, "system library libEGL.so.1", "apt-get install libegl1"),
    (
        window(errors={"qt": "E: No module named 'PySide6'"}),
        "window", MISSING, "not installed", "pip install",
    ),
    (
        window(found=QT_6, errors={"widgets": "E: libxkbcommon.so.0: cannot open shared object file"}),
        "window", MISSING, "libxkbcommon.so.0", "apt-get install libxkbcommon0",
    ),
    (
        window({"DISPLAY": ":0"}, found={**WINDOW, "plugin": CURSOR}, stage="screen", code=-6),
        "window", MISSING, "display :0: libxcb-cursor.so.0, libxcb-icccm.so.4 not there",
        "apt-get install libxcb-cursor0 libxcb-icccm4",
    ),
    (
        window({"DISPLAY": ":9"}, found=QT_6, stage="screen", code=-6, log="could not connect to display :9"),
        "window", MISSING, "Qt cannot reach display :9.", "DISPLAY",
    ),
    (
        window({"QT_QPA_PLATFORM": "x"}, stage="screen", code=-6, log=NO_PLUGIN),
        "window", MISSING, "no plug-in for the platform 'x'", "unset QT_QPA_PLATFORM",
    ),
    (window(stage="qt", code=-11), "window", MISSING, "while it was imported (SIGSEGV", "PySide6-Essentials"),
    (window(found=OFFSCREEN), "window", LIMITED, "no display", "--screenshot"),
    (
        window({"QT_QPA_PLATFORM": "offscreen"}, found=OFFSCREEN),
        "window", LIMITED, "by QT_QPA_PLATFORM=offscreen", "unset QT_QPA_PLATFORM",
    ),
    (
        replace(HEALTHY, solvers=Probe(errors={"llvmlite": "E: x"})),
        "solvers", MISSING, "llvmlite cannot", "llvmlite",
    ),
    (
        replace(HEALTHY, solvers=Probe(stage="highspy", code=-11)),
        "solvers", MISSING, "highspy ended", "highspy",
    ),
    (
        replace(HEALTHY, solvers=Probe(errors={"pulp": "E: x"})),
        "solvers", LIMITED, "milp", "--force-reinstall pulp",
    ),
    (
        folder("cost-cache", problem="Permission denied"),
        "cost-cache", LIMITED, "/x cannot be", "XDG_CACHE_HOME",
    ),
    (folder("sessions", problem="Read-only"), "sessions", LIMITED, "Read-only", "XDG_STATE_HOME"),
    (folder("temporary", "", problem="No space"), "temporary", MISSING, "No folder cannot be", "TMPDIR"),
    (folder("kernel-cache", free=MIB), "kernel-cache", LIMITED, "only 1.00 MiB are free", "free some space"),
    (
        replace(HEALTHY, libraries=WRONG), "libraries", LIMITED,
        "numba 0.55 is installed, but >=0.60 is needed; rich is not installed.", "'numba>=0.60' 'rich>=13'",
    ),
    (replace(HEALTHY, libraries=()), "libraries", LIMITED, "not known", "pip install checkmate-explorer"),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "name", "state", "said", "mend"), CASES)
def test_a_line_says_what_is_wrong_and_what_mends_it(
    facts: Facts, name: str, state: PartState, said: str, mend: str
) -> None:
    found = line(facts, name)
    assert (
        found.state is state and said in found.text and mend in found.mend and bool(found.mend) == bool(mend)
    )
    lines = diagnose(facts, 1.0).lines
    assert len({one.name for one in lines}) == len(lines)
    for one in lines:
        assert one.text.endswith((".", "…")) and "\n" not in one.text
        assert bool(one.mend) or one.state is OK, one
    # What the main job needs: TensorFlow, Keras, a meter, solvers, a folder for temporary files.
    needed = ("tensorflow", "keras", "meter", "solvers", "temporary")
    assert diagnose(facts, 1.0).ok is not any(one.state is MISSING and one.name in needed for one in lines)


def test_a_healthy_machine_with_no_gpu() -> None:
    found = diagnose(HEALTHY, 1.0)
    assert found.ok and {one.name for one in found.lines if one.state is not OK} == {"gpu"}
    assert "can run here. 1 line could be better" in found.verdict
    text = found.text()
    assert "limited GPU" in text and "→ with an NVIDIA card" in text
    assert text.count("\n") == len(found.lines) + 3


def test_json_has_lines_facts_and_the_verdict() -> None:
    data = json.loads(json.dumps(diagnose(crashed(-6, "tensorflow"), 2.5).to_json()))
    assert (data["format"], data["version"], data["ok"], data["seconds"]) == (
        "checkmate-doctor",
        1,
        False,
        2.5,
    )
    assert set(data) == {"format", "version", "ok", "verdict", "lines", "seconds", "facts"}
    for one in data["lines"]:
        assert set(one) == {"name", "title", "state", "text", "mend", "needed"}
        assert one["state"] in ("ok", "limited", "missing")
    assert data["facts"]["tensorflow"]["code"] == -6


def test_keras_on_another_backend_says_so_itself() -> None:
    facts = tensorflow(without="keras program", errors={"keras": TORCH, "program": "x"})
    assert line(facts, "keras").blocks and not line(facts, "tensorflow").blocks


def test_libraries_that_tensorflow_names() -> None:
    assert missing_libraries(NO_CUDNN) == ("libcudnn.so.9",)


def test_the_table_of_nvidia_smi() -> None:
    listed = (
        "NVIDIA H100, 81559, 80994, 550.54.15, 9.0, Exclusive_Process\n"
        "NVIDIA T4, 15360, [N/A], 550.54.15, 7.5, Default\n"
    )
    first, second = cards_of(listed)
    assert first == ListedCard("NVIDIA H100", 81559 * MIB, 80994 * MIB, "550.54.15", "9.0", exclusive=True)
    assert (second.free_bytes, second.exclusive) == (0, False)
    assert cards_of("nonsense\n") == ()


def test_the_verdict_names_what_blocks() -> None:
    lines = (
        Line("a", "One", PartState.MISSING, "x.", "y", needed=True),
        Line("b", "Two", PartState.MISSING, "x.", "y"),
    )
    assert Diagnosis(lines, 0.0, {}).verdict.endswith("cannot run here yet: see One.")
    assert "1 line could be better" in Diagnosis(lines[1:], 0.0, {}).verdict
    assert Diagnosis((), 0.0, {}).verdict.endswith("can run here.")
