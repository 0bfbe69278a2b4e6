"""Test what the doctor says of a machine that is described to it.

Everything that may be wrong has its line, and the line says what mends it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from checkmate.doctor.diagnosis import Diagnosis, Line, PartState
from checkmate.doctor.facts import Facts, Folder, Host, Library, ListedCard, Nvidia, Probe
from checkmate.doctor.lines import diagnose
from checkmate.doctor.look import cards_of
from checkmate.doctor.tensorflow_lines import missing_libraries

MIB = 2**20
FOUND: dict[str, Any] = {
    "tensorflow": {
        "version": "2.21.0",
        "is_cuda_build": True,
        "cuda_version": "12.5.1",
        "cudnn_version": "9",
    },
    "keras": {"version": "3.15.1", "backend": "tensorflow", "policy": "float32"},
    "gpus": [],
    "program": "checkmate.planning.measured",
    "settings": {"kind": "cpu", "kernels": "onednn", "metered_from": 0},
    "profiler": {"ops": 4, "allocations": 4},
    "xla": "compiled",
}
WINDOW = {
    "qt": "6.9.1",
    "plugin": [],
    "widgets": True,
    "plotting": "0.14",
    "screen": {"platform": "xcb", "size": [2560, 1440]},
}
HEALTHY = Facts(
    host=Host(
        "CPython 3.11.7",
        "/usr/bin/python3",
        "Debian 12, x86_64",
        "A processor",
        True,
        8,
        32 * 2**30,
        20 * 2**30,
    ),
    version="0.1.0",
    libraries=(
        Library("numpy", ">=1.26", "2.1.0", True),
        Library("tensorflow", "<2.22,>=2.21", "2.21.0", True),
    ),
    tensorflow=Probe(FOUND, seconds=4.0),
    without_gpu=None,
    solvers=Probe(
        {
            "numpy": "2.1.0",
            "llvmlite": "0.50",
            "highspy": "",
            "pulp": "3.3",
            "ortools.sat.python.cp_model": "",
        }
    ),
    window=Probe(WINDOW),
    nvidia=Nvidia(installed=False),
    cuda_packages=(),
    folders=(Folder("cost-cache", "Cost cache", "/home/a/.cache/costs", 3 * MIB, 2**40),),
    environment={"DISPLAY": ":0"},
)
CARD = ListedCard("NVIDIA T4", 15 * 2**30, 14 * 2**30, "550.54", "7.5")
WITH_CARD = replace(HEALTHY, nvidia=Nvidia(True, (CARD,), cuda="12.4"))
ON_GPU = {
    **FOUND,
    "gpus": [{"name": "NVIDIA T4", "capability": [7, 5]}],
    "settings": {"kind": "gpu", "kernels": "cuda", "metered_from": 0},
}


def line(facts: Facts, name: str) -> Line:
    return next(one for one in diagnose(facts, 1.0).lines if one.name == name)


def tensorflow(facts: Facts = HEALTHY, *, without: tuple[str, ...] = (), **changed: Any) -> Facts:
    """Return ``facts`` with another child process of TensorFlow's.

    ``without``: stages that it did not find.
    """
    found = {name: value for name, value in changed.pop("found", FOUND).items() if name not in without}
    return replace(facts, tensorflow=replace(facts.tensorflow, found=found, **changed))


def test_a_healthy_machine_with_no_gpu() -> None:
    found = diagnose(HEALTHY, 1.0)
    assert found.ok
    assert {one.name for one in found.lines if one.state is not PartState.OK} == {"gpu"}
    gpu = line(HEALTHY, "gpu")
    assert (
        gpu.state is PartState.LIMITED and "checkmate-explorer[cuda]" in gpu.mend and "nvidia-smi" in gpu.mend
    )
    assert "can run here. 1 line could be better" in found.verdict


def test_names_are_unique_and_every_problem_has_a_remedy() -> None:
    for facts in (HEALTHY, WITH_CARD, tensorflow(code=-4, stage="tensorflow", found={}), *TROUBLED):
        lines = diagnose(facts, 1.0).lines
        assert len({one.name for one in lines}) == len(lines)
        for one in lines:
            assert one.text.endswith((".", "…")) and "\n" not in one.text
            assert bool(one.mend) or one.state is PartState.OK, one


def test_the_text_to_copy_has_every_line() -> None:
    text = diagnose(HEALTHY, 1.0).text()
    assert (
        "limited GPU" in text
        and "→ with an NVIDIA card" in text
        and text.count("\n") == len(diagnose(HEALTHY, 1.0).lines) + 3
    )


def test_json_has_lines_facts_and_the_verdict() -> None:
    data = json.loads(json.dumps(diagnose(tensorflow(code=-6, stage="tensorflow", found={}), 2.5).to_json()))
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


# TensorFlow


def test_tensorflow_not_installed() -> None:
    error = "ModuleNotFoundError: No module named 'tensorflow'"
    found = line(tensorflow(found={}, errors={"tensorflow": error}), "tensorflow")
    assert (
        found.blocks and found.text == "TensorFlow is not installed." and found.mend.startswith("pip install")
    )


@pytest.mark.parametrize(
    ("code", "stage", "said"),
    [
        (-4, "tensorflow", "while it was imported (SIGILL, illegal instruction)"),
        (-11, "gpus", "while it looked for GPUs (SIGSEGV, segmentation fault)"),
        (-6, "settings", "while it started (SIGABRT, abort)"),
        (None, "tensorflow", "gave no answer within 90 s while it was imported"),
        (3, "xla", "while XLA compiled (exit code 3)"),
    ],
)
def test_a_crash_is_a_line(code: int | None, stage: str, said: str) -> None:
    facts = tensorflow(found={}, code=code, stage=stage, seconds=90.0)
    found = line(facts, "tensorflow")
    assert found.blocks and said in found.text and found.mend
    assert not diagnose(facts, 1.0).ok


def test_no_avx_is_the_reason_for_an_illegal_instruction() -> None:
    facts = replace(tensorflow(found={}, code=-4, stage="tensorflow"), host=replace(HEALTHY.host, avx=False))
    assert "AVX" in line(facts, "tensorflow").mend


def test_a_gpu_that_crashes_tensorflow_can_be_hidden() -> None:
    facts = tensorflow(WITH_CARD, found={"tensorflow": FOUND["tensorflow"]}, code=-11, stage="gpus")
    facts = replace(facts, without_gpu=Probe(FOUND))
    assert line(facts, "tensorflow").mend.startswith("CUDA_VISIBLE_DEVICES=-1 checkmate")


def test_another_release_of_tensorflow() -> None:
    facts = tensorflow(
        without=("program", "settings"), errors={"program": "ImportError: cannot import name 'x'"}
    )
    found = line(facts, "tensorflow")
    assert found.blocks and "cannot work with TensorFlow 2.21.0" in found.text
    other = replace(HEALTHY, libraries=(Library("tensorflow", "<2.22,>=2.21", "2.30.0", False),))
    assert line(other, "tensorflow").state is PartState.LIMITED


@pytest.mark.parametrize(
    "facts",
    [
        tensorflow(found={**FOUND, "keras": {**FOUND["keras"], "backend": "torch"}}),
        tensorflow(
            without=("keras", "program"),
            errors={"keras": "ModuleNotFoundError: No module named 'torch'", "program": "x"},
        ),
        tensorflow(
            without=("keras", "program"), errors={"keras": "ValueError: Unable to import backend : torch"}
        ),
    ],
)
def test_keras_on_another_backend(facts: Facts) -> None:
    found = line(facts, "keras")
    assert found.blocks and "the backend torch" in found.text and "KERAS_BACKEND=tensorflow" in found.mend
    assert not line(facts, "tensorflow").blocks


def test_keras_on_jax_blocks_nothing() -> None:
    found = line(tensorflow(found={**FOUND, "keras": {**FOUND["keras"], "backend": "jax"}}), "keras")
    assert not found.blocks and "set up for JAX" in found.text


def test_keras_on_a_jax_that_is_not_installed() -> None:
    found = line(tensorflow(without=("keras",), errors={"keras": "x: No module named 'jax'"}), "keras")
    assert found.blocks and "JAX, which is not installed" in found.text and "[jax]" in found.mend


def test_no_meter_blocks_and_a_meter_with_a_threshold_does_not() -> None:
    for metered_from, state in ((None, PartState.MISSING), (256 << 10, PartState.LIMITED), (0, PartState.OK)):
        settings = {"kind": "cpu", "kernels": "eigen", "metered_from": metered_from}
        facts = tensorflow(found={**FOUND, "settings": settings})
        assert line(facts, "meter").state is state
        assert diagnose(facts, 1.0).ok is (metered_from is not None)


def test_kernels_say_what_chose_them() -> None:
    facts = replace(HEALTHY, environment={"TF_ENABLE_ONEDNN_OPTS": "1"})
    assert "oneDNN's kernels, by TF_ENABLE_ONEDNN_OPTS=1" in line(facts, "kernels").text


def test_the_profiler_is_not_needed() -> None:
    for seen in ({"ops": 0, "allocations": 4}, {"ops": 4, "allocations": 0}):
        facts = tensorflow(found={**FOUND, "profiler": seen})
        assert line(facts, "profiler").state is PartState.LIMITED and diagnose(facts, 1.0).ok
    facts = tensorflow(without=("profiler",), errors={"profiler": "UnavailableError: no"})
    assert "UnavailableError" in line(facts, "profiler").text
    facts = tensorflow(without=("xla",), errors={"xla": "InternalError: no ptxas"})
    assert line(facts, "xla").state is PartState.LIMITED and "ptxas" in line(facts, "xla").text


# The GPU


def test_a_gpu_that_can_be_used() -> None:
    facts = tensorflow(WITH_CARD, found=ON_GPU)
    found = line(facts, "gpu")
    assert (
        found.state is PartState.OK
        and "NVIDIA T4: 15.0 GiB, 14.0 GiB of it free; driver 550.54" in found.text
    )
    full = replace(facts, nvidia=Nvidia(True, (replace(CARD, free_bytes=2**30),), cuda="12.4"))
    assert line(full, "gpu").state is PartState.LIMITED


def test_a_gpu_that_is_taken() -> None:
    error = "InternalError: CUDA_ERROR_DEVICE_UNAVAILABLE: CUDA-capable device(s) is/are busy or unavailable"
    facts = tensorflow(WITH_CARD, found=ON_GPU, without=("settings", "profiler"), errors={"settings": error})
    assert "taken by another process" in line(facts, "gpu").text
    assert line(facts, "meter").blocks


def test_cupti_without_privileges() -> None:
    found = {**ON_GPU, "profiler": {"ops": 0, "allocations": 9}}
    facts = tensorflow(WITH_CARD, found=found, log="E cupti: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES")
    denied = line(facts, "profiler")
    assert (
        denied.state is PartState.LIMITED and "SYS_ADMIN" in denied.mend and "NVreg_Restrict" in denied.mend
    )
    assert (
        "brings CUPTI" in line(replace(facts, tensorflow=replace(facts.tensorflow, log="")), "profiler").mend
    )


def test_libraries_that_tensorflow_names() -> None:
    log = """W dso_loader.cc:144] Could not load dynamic library 'libcudnn.so.9'; dlerror: libcudnn.so.9:
    cannot open shared object file: No such file or directory
    W dso_loader.cc:144] Could not load dynamic library 'libnvinfer.so.8'; dlerror: no
    W gpu_device.cc:2342] Cannot dlopen some GPU libraries."""
    assert missing_libraries(log) == ("libcudnn.so.9",)
    found = line(tensorflow(WITH_CARD, log=log), "gpu")
    assert (
        found.state is PartState.LIMITED
        and "does not find libcudnn.so.9" in found.text
        and "[cuda]" in found.mend
    )


@pytest.mark.parametrize(
    ("facts", "said", "mend"),
    [
        (
            replace(WITH_CARD, environment={"CUDA_VISIBLE_DEVICES": ""}),
            "hidden by CUDA_VISIBLE_DEVICES",
            "unset CUDA",
        ),
        (
            tensorflow(
                WITH_CARD, found={**FOUND, "tensorflow": {"version": "2.21.0", "is_cuda_build": False}}
            ),
            "built without CUDA",
            "tensorflow-cpu",
        ),
        (
            replace(WITH_CARD, nvidia=Nvidia(True, (CARD,), cuda="11.4")),
            "550.54 (CUDA 11.4 at most) is too old",
            "newer",
        ),
        (
            tensorflow(WITH_CARD, log="CUDA driver version is insufficient for CUDA runtime version"),
            "too old",
            "newer",
        ),
        (
            replace(WITH_CARD, cuda_packages=(Library("nvidia-cudnn-cu12", "==9.3", "", False),)),
            "nvidia-cudnn-cu12 is not installed",
            "[cuda]",
        ),
        (
            replace(WITH_CARD, cuda_packages=(Library("nvidia-cudnn-cu12", "==9.3", "8.9", False),)),
            "nvidia-cudnn-cu12 is 8.9, not ==9.3",
            "[cuda]",
        ),
        (WITH_CARD, "does not say why", "VLOG"),
        (replace(HEALTHY, nvidia=Nvidia(True)), "lists no card", "--gpus all"),
        (
            replace(
                HEALTHY,
                nvidia=Nvidia(True, problem="Failed to initialize NVML: Driver/library version mismatch"),
            ),
            "version mismatch",
            "reboot",
        ),
        (
            tensorflow(WITH_CARD, without=("gpus",), code=-6, stage="gpus"),
            "TensorFlow could not be asked",
            "TensorFlow's line",
        ),
    ],
)
def test_a_card_that_tensorflow_does_not_see(facts: Facts, said: str, mend: str) -> None:
    found = line(facts, "gpu")
    assert found.state is PartState.LIMITED and said in found.text and mend in found.mend, found


def test_the_table_of_nvidia_smi() -> None:
    listed = (
        "NVIDIA H100, 81559, 80994, 550.54.15, 9.0, Exclusive_Process\nNVIDIA T4, 15360, [N/A], "
        "550.54.15, 7.5, Default\n"
    )
    first, second = cards_of(listed)
    assert first == ListedCard("NVIDIA H100", 81559 * MIB, 80994 * MIB, "550.54.15", "9.0", exclusive=True)
    assert (second.free_bytes, second.exclusive) == (0, False)
    assert cards_of("nonsense\n") == ()


# The rest


@pytest.mark.parametrize(
    ("window", "environment", "said", "mend"),
    [
        (
            Probe(
                errors={
                    "qt": "ImportError: libEGL.so.1: cannot open shared object file: No such file or "
                    "directory"
                }
            ),
            {},
            "needs the system library libEGL.so.1",
            "apt-get install libegl1",
        ),
        (
            Probe(errors={"qt": "ModuleNotFoundError: No module named 'PySide6'"}),
            {},
            "not installed",
            "pip install",
        ),
        (
            Probe(
                {"qt": "6.9"}, {"widgets": "ImportError: libxkbcommon.so.0: cannot open shared object file"}
            ),
            {},
            "libxkbcommon.so.0",
            "apt-get install libxkbcommon0",
        ),
        (
            Probe({**WINDOW, "plugin": ["libxcb-cursor.so.0", "libxcb-icccm.so.4"]}, stage="screen", code=-6),
            {"DISPLAY": ":0"},
            "display :0: libxcb-cursor.so.0, libxcb-icccm.so.4 not there",
            "apt-get install libxcb-cursor0 libxcb-icccm4",
        ),
        (
            Probe(
                {"qt": "6.9", "plugin": []}, stage="screen", code=-6, log="could not connect to display :9"
            ),
            {"DISPLAY": ":9"},
            "Qt cannot reach display :9.",
            "DISPLAY",
        ),
        (
            Probe(
                {"qt": "6.9"}, stage="screen", code=-6, log='Could not find the Qt platform plugin "x" in ""'
            ),
            {"QT_QPA_PLATFORM": "x"},
            "no plug-in for the platform 'x'",
            "unset QT_QPA_PLATFORM",
        ),
        (Probe(stage="qt", code=-11), {}, "while it was imported (SIGSEGV", "PySide6-Essentials"),
    ],
)
def test_no_window(window: Probe, environment: dict[str, str], said: str, mend: str) -> None:
    facts = replace(HEALTHY, window=window, environment=environment)
    found = line(facts, "window")
    assert found.state is PartState.MISSING and said in found.text and mend in found.mend, found
    assert diagnose(facts, 1.0).ok  # the main job needs none


def test_no_display() -> None:
    window = Probe({**WINDOW, "screen": {"platform": "offscreen", "size": [800, 800]}})
    found = line(replace(HEALTHY, window=window, environment={}), "window")
    assert found.state is PartState.LIMITED and "no display" in found.text and "--screenshot" in found.mend
    chosen = line(replace(HEALTHY, window=window, environment={"QT_QPA_PLATFORM": "offscreen"}), "window")
    assert "by QT_QPA_PLATFORM=offscreen" in chosen.text


def test_solvers() -> None:
    broken = Probe(errors={"llvmlite": "OSError: Could not find libllvmlite.so"})
    assert line(replace(HEALTHY, solvers=broken), "solvers").blocks
    assert line(replace(HEALTHY, solvers=Probe(stage="highspy", code=-11)), "solvers").blocks
    less = line(
        replace(HEALTHY, solvers=Probe(errors={"pulp": "ModuleNotFoundError: No module named 'pulp'"})),
        "solvers",
    )
    assert less.state is PartState.LIMITED and "milp" in less.text and less.mend.endswith("pulp")


def test_folders() -> None:
    cache = Folder("cost-cache", "Cost cache", "/x/costs", 0, 2**40, problem="Permission denied")
    temporary = Folder("temporary", "Temp folder", "", 0, 0, problem="No space left on device")
    full = Folder("kernel-cache", "Kernel cache", "/x/kernels", 0, 2**20)
    facts = replace(HEALTHY, folders=(cache, temporary, full))
    assert (
        line(facts, "cost-cache").state is PartState.LIMITED
        and "XDG_CACHE_HOME" in line(facts, "cost-cache").mend
    )
    assert line(facts, "temporary").blocks and "TMPDIR" in line(facts, "temporary").mend
    assert "only 1.00 MiB are free" in line(facts, "kernel-cache").text


def test_libraries() -> None:
    wrong = (Library("numba", ">=0.60", "0.55", False), Library("rich", ">=13", "", False))
    found = line(replace(HEALTHY, libraries=wrong), "libraries")
    assert found.text == "numba 0.55 is installed, but >=0.60 is needed; rich is not installed."
    assert found.mend == "pip install 'numba>=0.60' 'rich>=13'"
    assert line(replace(HEALTHY, libraries=()), "libraries").state is PartState.LIMITED


TROUBLED = (
    tensorflow(
        WITH_CARD, found=ON_GPU, without=("settings",), errors={"settings": "InternalError: out of memory"}
    ),
    tensorflow(without=("settings", "profiler", "xla"), code=-9, stage="settings"),
    replace(HEALTHY, window=Probe(code=None, stage="screen", seconds=90.0), libraries=()),
    replace(
        HEALTHY, folders=(Folder("sessions", "Explorations", "/x", 0, 0, problem="Read-only file system"),)
    ),
)


def test_the_verdict_names_what_blocks() -> None:
    lines = (
        Line("a", "One", PartState.MISSING, "x.", "y", needed=True),
        Line("b", "Two", PartState.MISSING, "x.", "y"),
    )
    assert Diagnosis(lines, 0.0, {}).verdict.endswith("cannot run here yet: see One.")
    assert "1 line could be better" in Diagnosis(lines[1:], 0.0, {}).verdict
    assert Diagnosis((), 0.0, {}).verdict.endswith("can run here.")
