"""Make the lines on TensorFlow and its parts.

The parts are Keras, kernels, the memory meter, the profiler and XLA.
"""

from __future__ import annotations

import re
from typing import Any

from checkmate.doctor.diagnosis import Line, PartState
from checkmate.doctor.facts.values import Facts, Probe
from checkmate.units import format_bytes

_INSTALL = "pip install --force-reinstall checkmate-explorer"
_KERNELS = {"onednn": "oneDNN's", "eigen": "Eigen's", "cuda": "CUDA's"}
# Keras's own words where it cannot import what it should run on.
_ABSENT = re.compile(r"(?:No module named '(?=jax|torch|openvino)|Unable to import backend : )(\w+)")
_USE_TENSORFLOW = "export KERAS_BACKEND=tensorflow, or set it in ~/.keras/keras.json"
_INSTALL_JAX = f"pip install 'checkmate-explorer[jax]'; or {_USE_TENSORFLOW}"
_WHERE = {
    "": "while it ended",
    "tensorflow": "while it was imported",
    "keras": "while Keras was imported",
    "gpus": "while it looked for GPUs",
    "program": "while the program was imported",
    "settings": "while it started",
    "profiler": "while a step was traced",
    "xla": "while XLA compiled",
}


def tensorflow_lines(facts: Facts) -> tuple[Line, ...]:
    """Return a line for TensorFlow and one for each part looked at."""
    probe = facts.tensorflow
    lines = [_tensorflow(facts)]
    if "keras" in probe.found or "keras" in probe.errors:
        lines.append(_keras(probe))
    if "settings" in probe.found:
        lines += [_kernels(probe.found["settings"], facts), _meter(probe.found["settings"])]
    elif "settings" in probe.errors:
        text = f"TensorFlow cannot start on its device: {probe.errors['settings']}."
        mend = "end what else uses the device (nvidia-smi lists it), then run checkmate doctor again"
        lines.append(Line("meter", "Memory meter", PartState.MISSING, text, mend, needed=True))
    if "profiler" in probe.found or "profiler" in probe.errors:
        lines.append(_profiler(probe))
    if "xla" in probe.found or "xla" in probe.errors:
        lines.append(_xla(probe))
    return tuple(lines)


def _tensorflow(facts: Facts) -> Line:
    def line(state: PartState, text: str, mend: str = "") -> Line:
        return Line("tensorflow", "TensorFlow", state, text, mend, needed=True)

    probe = facts.tensorflow
    version = probe.found.get("tensorflow", {}).get("version", "")
    if probe.crashed:
        return line(PartState.MISSING, _crash(probe, version), _after_crash(facts))
    if "tensorflow" in probe.errors:
        error = probe.errors["tensorflow"]
        if "No module named 'tensorflow'" in error:
            return line(PartState.MISSING, "TensorFlow is not installed.", "pip install checkmate-explorer")
        return line(PartState.MISSING, f"TensorFlow cannot be imported: {error}.", _INSTALL)
    if "program" in probe.errors and not _keras(probe).blocks:
        text = f"The program cannot work with TensorFlow {version}: {probe.errors['program']}."
        return line(PartState.MISSING, text, _INSTALL)
    wanted = next((one for one in facts.libraries if one.name == "tensorflow"), None)
    if wanted is not None and not wanted.fits:
        text = f"Version {version}, not tested with this program, which needs {wanted.wanted}."
        return line(PartState.LIMITED, text, f"pip install 'tensorflow{wanted.wanted}'")
    return line(PartState.OK, f"Version {version}; it answered in {probe.seconds:.0f} s.")


def _crash(probe: Probe, version: str) -> str:
    name = f"TensorFlow {version}".strip()
    where = _WHERE.get(probe.stage, f"at {probe.stage}")
    if probe.code is None:
        return f"{name} gave no answer within {probe.seconds:.0f} s {where}."
    return f"{name} ended its process {where} ({probe.why()})."


def _after_crash(facts: Facts) -> str:
    probe = facts.tensorflow
    if probe.code is None:
        return "checkmate doctor --time-limit 300, when the machine is less busy"
    if "SIGILL" in probe.why() and facts.host.avx is False:
        return "this processor has no AVX: install a TensorFlow built without it, or use another machine"
    without = facts.without_gpu
    if without is not None and not without.crashed and "settings" in without.found:
        return "CUDA_VISIBLE_DEVICES=-1 checkmate … works without the GPU; to use it, reinstall its driver"
    return _INSTALL


def _keras(probe: Probe) -> Line:
    def line(state: PartState, text: str, mend: str = "") -> Line:
        return Line("keras", "Keras", state, text, mend, needed=True)

    absent = _ABSENT.search(probe.errors.get("keras", ""))
    if absent is not None and absent[1] == "jax":
        return line(PartState.MISSING, "Keras is set up for JAX, which is not installed.", _INSTALL_JAX)
    backend = absent[1] if absent is not None else probe.found.get("keras", {}).get("backend")
    if backend == "jax":
        text = "Keras is set up for JAX: profile, run, export and verify are for JAX's steps."
        return line(PartState.OK, text)
    if backend and backend != "tensorflow":
        text = f"Keras is set up for the backend {backend}, but training steps need TensorFlow."
        return line(PartState.MISSING, text, _USE_TENSORFLOW)
    if "keras" in probe.errors:
        return line(
            PartState.MISSING,
            f"Keras cannot be imported: {probe.errors['keras']}.",
            "pip install --upgrade keras",
        )
    found = probe.found["keras"]
    if found["version"].startswith("2."):
        return line(
            PartState.MISSING, f"Version {found['version']} is too old.", "pip install --upgrade keras"
        )
    return line(PartState.OK, f"Version {found['version']} on TensorFlow, dtype policy {found['policy']}.")


def _kernels(settings: dict[str, Any], facts: Facts) -> Line:
    library = str(settings["kernels"])
    chosen = facts.environment.get("TF_ENABLE_ONEDNN_OPTS")
    why = f", by TF_ENABLE_ONEDNN_OPTS={chosen}" if chosen is not None and library != "cuda" else ""
    text = (
        f"Steps run on the {str(settings['kind']).upper()} with {_KERNELS.get(library, library)} "
        f"kernels{why}."
    )
    return Line("kernels", "Kernels", PartState.OK, text)


def _meter(settings: dict[str, Any]) -> Line:
    def line(state: PartState, text: str, mend: str = "") -> Line:
        return Line("meter", "Memory meter", state, text, mend, needed=True)

    metered_from = settings["metered_from"]
    if metered_from is None:
        text = "TensorFlow's allocator counts no bytes here, so no peak can be measured."
        return line(PartState.MISSING, text, "unset TF_CPU_ALLOCATOR_USE_BFC TF_GPU_ALLOCATOR")
    if metered_from:
        text = f"The meter sees tensors from {format_bytes(metered_from)} up."
        return line(PartState.LIMITED, text, "export TF_CPU_ALLOCATOR_USE_BFC=true")
    if settings["kind"] == "gpu":
        return line(PartState.OK, "The GPU's allocator counts every tensor.")
    return line(
        PartState.OK, "Counts every tensor; your own programs need TF_CPU_ALLOCATOR_USE_BFC=true for it."
    )


def _profiler(probe: Probe) -> Line:
    """Return the line on the profiler.

    On a GPU, CUPTI reports kernels only to privileged users. On a CPU nothing is needed.
    """

    def line(state: PartState, text: str, mend: str = "") -> Line:
        return Line("profiler", "Profiler", state, text, mend)

    kind = probe.found.get("settings", {}).get("kind", "cpu")
    estimates = "checkmate profile MODEL --costs analytic works without it"
    if "profiler" in probe.errors:
        return line(PartState.LIMITED, f"TensorFlow's profiler fails: {probe.errors['profiler']}.", estimates)
    ops, allocations = probe.found["profiler"]["ops"], probe.found["profiler"]["allocations"]
    if kind == "gpu" and not ops:
        denied = "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" in probe.log
        why = "this user may not read the GPU's counters" if denied else "CUPTI reported none"
        text = f"The profiler sees no GPU kernels: {why}."
        mend = (
            "in a container: docker run --cap-add=SYS_ADMIN …; else, as root: echo 'options nvidia "
            "NVreg_RestrictProfilingToAdminUsers=0' > /etc/modprobe.d/nvidia.conf, then reboot"
            if denied
            else "pip install 'checkmate-explorer[cuda]' brings CUPTI"
        )
        return line(PartState.LIMITED, text, mend)
    if not ops or not allocations:
        unseen = "ops" if not ops else "allocations"
        return line(PartState.LIMITED, f"The profiler sees no {unseen} of a step.", estimates)
    seen = "kernels through CUPTI" if kind == "gpu" else "ops"
    return line(PartState.OK, f"Sees a step's {seen} and what the allocator gives out.")


def _xla(probe: Probe) -> Line:
    if "xla" in probe.errors:
        text = f"XLA cannot compile: {probe.errors['xla']}."
        return Line("xla", "XLA", PartState.LIMITED, text, "compile models with jit_compile=False")
    return Line(
        "xla",
        "XLA",
        PartState.OK,
        "XLA can compile. Models with jit_compile=True train by schedules under it.",
    )
