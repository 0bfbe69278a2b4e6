from __future__ import annotations

import re
from typing import Any

from checkmate.doctor.diagnosis import Facts, Line, Nvidia, Part
from checkmate.processes.stages import Probe
from checkmate.units import format_bytes

TENSORFLOW = Part("tensorflow", "TensorFlow", needed=True)
KERAS = Part("keras", "Keras", needed=True)
GPU = Part("gpu", "GPU")
KERNELS = Part("kernels", "Kernels")
METER = Part("meter", "Memory meter", needed=True)
PROFILER = Part("profiler", "Profiler")
XLA = Part("xla", "XLA")

_INSTALL = "pip install --force-reinstall checkmate-explorer"
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


def tensorflow_line(facts: Facts) -> Line:
    probe = facts.tensorflow
    version = probe.found.get("tensorflow", {}).get("version", "")
    if probe.crashed:
        return TENSORFLOW.missing(_crash(probe, version), _after_crash(facts))
    if "tensorflow" in probe.errors:
        error = probe.errors["tensorflow"]
        if "No module named 'tensorflow'" in error:
            return TENSORFLOW.missing("TensorFlow is not installed.", "pip install checkmate-explorer")
        return TENSORFLOW.missing(f"TensorFlow cannot be imported: {error}.", _INSTALL)
    if "program" in probe.errors:
        keras = keras_line(probe)
        if keras is None or not keras.blocks:  # else Keras's line says why
            text = f"The program cannot work with TensorFlow {version}: {probe.errors['program']}."
            return TENSORFLOW.missing(text, _INSTALL)
    wanted = next((one for one in facts.libraries if one.name == "tensorflow"), None)
    if wanted is not None and not wanted.fits:
        text = f"Version {version}, not tested with this program, which needs {wanted.wanted}."
        return TENSORFLOW.limited(text, f"pip install 'tensorflow{wanted.wanted}'")
    return TENSORFLOW.ok(f"Version {version}; it answered in {probe.seconds:.0f} s.")


def _crash(probe: Probe, version: str) -> str:
    name = f"TensorFlow {version}".strip()
    where = _WHERE.get(probe.stage, f"at {probe.stage}")
    if probe.code is None:
        return f"{name} gave {probe.why()} {where}."
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


# Keras's own words where it cannot import what it should run on.
_ABSENT = re.compile(r"(?:No module named '(?=jax|torch|openvino)|Unable to import backend : )(\w+)")
_USE_TENSORFLOW = "export KERAS_BACKEND=tensorflow, or set it in ~/.keras/keras.json"
_UPGRADE_KERAS = "pip install --upgrade keras"


def keras_line(probe: Probe) -> Line | None:
    """None where Keras was not looked at."""
    error, found = probe.errors.get("keras"), probe.found.get("keras", {})
    if error is None and not found:
        return None
    absent = _ABSENT.search(error or "")
    if absent is not None and absent[1] == "jax":
        mend = f"pip install 'checkmate-explorer[jax]'; or {_USE_TENSORFLOW}"
        return KERAS.missing("Keras is set up for JAX, which is not installed.", mend)
    backend = absent[1] if absent is not None else found.get("backend")
    if backend == "jax":
        return KERAS.ok("Keras is set up for JAX: profile, run, export and verify are for JAX's steps.")
    if backend and backend != "tensorflow":
        text = f"Keras is set up for the backend {backend}, but training steps need TensorFlow."
        return KERAS.missing(text, _USE_TENSORFLOW)
    if error is not None:
        return KERAS.missing(f"Keras cannot be imported: {error}.", _UPGRADE_KERAS)
    version, policy = found["version"], found["policy"]
    if version.startswith("2."):
        return KERAS.missing(f"Version {version} is too old.", _UPGRADE_KERAS)
    return KERAS.ok(f"Version {version} on TensorFlow, dtype policy {policy}.")


def step_lines(facts: Facts) -> list[Line]:
    probe = facts.tensorflow
    lines = []
    if "settings" in probe.found:
        settings = probe.found["settings"]
        lines += [_kernels(settings, facts.environment.get("TF_ENABLE_ONEDNN_OPTS")), _meter(settings)]
    elif "settings" in probe.errors:
        text = f"TensorFlow cannot start on its device: {probe.errors['settings']}."
        mend = "end what else uses the device (nvidia-smi lists it), then run checkmate doctor again"
        lines.append(METER.missing(text, mend))
    if "profiler" in probe.found or "profiler" in probe.errors:
        lines.append(_profiler(probe))
    if "xla" in probe.errors:
        text = f"XLA cannot compile: {probe.errors['xla']}."
        lines.append(XLA.limited(text, "compile models with jit_compile=False"))
    elif "xla" in probe.found:
        lines.append(XLA.ok("XLA can compile. Models with jit_compile=True train by schedules under it."))
    return lines


def _kernels(settings: dict[str, Any], chosen: str | None) -> Line:
    library = str(settings["kernels"])
    name = {"onednn": "oneDNN's", "eigen": "Eigen's", "cuda": "CUDA's"}.get(library, library)
    why = f", by TF_ENABLE_ONEDNN_OPTS={chosen}" if chosen is not None and library != "cuda" else ""
    return KERNELS.ok(f"Steps run on the {str(settings['kind']).upper()} with {name} kernels{why}.")


def _meter(settings: dict[str, Any]) -> Line:
    metered_from = settings["metered_from"]
    if metered_from is None:
        text = "TensorFlow's allocator counts no bytes here, so no peak can be measured."
        return METER.missing(text, "unset TF_CPU_ALLOCATOR_USE_BFC TF_GPU_ALLOCATOR")
    if metered_from:
        text = f"The meter sees tensors from {format_bytes(metered_from)} up."
        return METER.limited(text, "export TF_CPU_ALLOCATOR_USE_BFC=true")
    if settings["kind"] == "gpu":
        return METER.ok("The GPU's allocator counts every tensor.")
    return METER.ok("Counts every tensor; your own programs need TF_CPU_ALLOCATOR_USE_BFC=true for it.")


def _profiler(probe: Probe) -> Line:
    estimates = "checkmate profile MODEL --costs analytic works without it"
    if "profiler" in probe.errors:
        return PROFILER.limited(f"TensorFlow's profiler fails: {probe.errors['profiler']}.", estimates)
    on_gpu = probe.found.get("settings", {}).get("kind") == "gpu"
    ops, allocations = probe.found["profiler"]["ops"], probe.found["profiler"]["allocations"]
    if on_gpu and not ops:
        # CUPTI reports kernels only to privileged users.
        if "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" in probe.log:
            why = "this user may not read the GPU's counters"
            mend = (
                "in a container: docker run --cap-add=SYS_ADMIN …; else, as root: echo 'options nvidia "
                "NVreg_RestrictProfilingToAdminUsers=0' > /etc/modprobe.d/nvidia.conf, then reboot"
            )
        else:
            why, mend = "CUPTI reported none", "pip install 'checkmate-explorer[cuda]' brings CUPTI"
        return PROFILER.limited(f"The profiler sees no GPU kernels: {why}.", mend)
    if not ops or not allocations:
        unseen = "ops" if not ops else "allocations"
        return PROFILER.limited(f"The profiler sees no {unseen} of a step.", estimates)
    seen = "kernels through CUPTI" if on_gpu else "ops"
    return PROFILER.ok(f"Sees a step's {seen} and what the allocator gives out.")


_CUDA_PACKAGES = "pip install 'checkmate-explorer[cuda]'"
_NOT_LOADED = re.compile(r"Could not load dynamic library '([^']+)'")
NOT_OPENED = re.compile(r"(lib[\w.+-]+\.so[\w.]*): cannot open shared object file")
_TENSORRT = "libnvinfer"  # TensorFlow looks for it, but does not need it
_TOO_OLD = re.compile(
    "driver version is insufficient|CUDA_ERROR_COMPAT_NOT_SUPPORTED|PTX was compiled with an unsupported"
)
_TAKEN = re.compile("CUDA_ERROR_DEVICE_UNAVAILABLE|busy or unavailable|exclusive")
_NO_ROOM = re.compile("CUDA_ERROR_OUT_OF_MEMORY|out of memory")


def missing_libraries(log: str) -> tuple[str, ...]:
    """In the order of TensorFlow's log."""
    found = [*_NOT_LOADED.findall(log), *NOT_OPENED.findall(log)]
    return tuple(name for name in dict.fromkeys(found) if not name.startswith(_TENSORRT))


def gpu_line(facts: Facts) -> Line:
    """A GPU is never needed."""
    seen = facts.tensorflow.found.get("gpus")
    if seen:
        return _usable(facts, seen)
    nvidia = facts.nvidia
    if not nvidia.installed:
        mend = f"with an NVIDIA card: install its driver, check nvidia-smi, then {_CUDA_PACKAGES}"
        return GPU.limited("No GPU here (no nvidia-smi): steps run on the CPU.", mend)
    if nvidia.problem or not nvidia.cards:
        return _driver(nvidia)
    name = nvidia.cards[0].name
    if seen is None:
        text = f"{name} is there, but TensorFlow could not be asked about it."
        return GPU.limited(text, "see TensorFlow's line")
    return _invisible(facts, name)


def _usable(facts: Facts, seen: list[dict[str, object]]) -> Line:
    cards = facts.nvidia.cards
    name = str(seen[0]["name"])
    error = facts.tensorflow.errors.get("settings", "")
    if _TAKEN.search(error) or (error and cards and cards[0].exclusive):
        mend = "end that process (nvidia-smi lists it), or use --device cpu"
        return GPU.missing(f"{name} is taken by another process.", mend)
    if _NO_ROOM.search(error):
        return GPU.missing(f"{name} has no memory free.", "nvidia-smi lists who holds it; end that process")
    if _TOO_OLD.search(facts.tensorflow.log) or _TOO_OLD.search(error):
        return _old_driver(facts, name)
    card = next((one for one in cards if one.name == name), cards[0] if cards else None)
    if card is None:
        return GPU.ok(f"{name}.")
    more = f", the first of {len(seen)}" if len(seen) > 1 else ""
    text = (
        f"{name}{more}: {format_bytes(card.memory_bytes)}, {format_bytes(card.free_bytes)} of it free; "
        f"driver {card.driver}, compute capability {card.capability}."
    )
    if 2 * card.free_bytes < card.memory_bytes:
        return GPU.limited(text, "nvidia-smi lists who holds its memory")
    return GPU.ok(text)


def _driver(nvidia: Nvidia) -> Line:
    if not nvidia.problem:
        text = "nvidia-smi lists no card; steps run on the CPU."
        return GPU.limited(text, "in a container: docker run --gpus all …")
    mend = "reinstall NVIDIA's driver, then: nvidia-smi"
    if "mismatch" in nvidia.problem:
        mend = "sudo reboot: the driver was updated while it ran"
    return GPU.limited(f"nvidia-smi fails: {nvidia.problem.rstrip('.')}.", mend)


def _invisible(facts: Facts, name: str) -> Line:
    """Say why TensorFlow does not see a GPU; the most frequent reasons are tried first."""
    hidden = facts.environment.get("CUDA_VISIBLE_DEVICES")
    if hidden is not None and (not hidden.strip() or hidden.strip().startswith("-")):
        return GPU.limited(
            f"{name} is hidden by CUDA_VISIBLE_DEVICES={hidden}.", "unset CUDA_VISIBLE_DEVICES"
        )
    build, log = facts.tensorflow.found.get("tensorflow", {}), facts.tensorflow.log
    if build.get("is_cuda_build") is False:
        text = f"{name} is there, but this TensorFlow is built without CUDA."
        return GPU.limited(text, f"pip uninstall tensorflow-cpu; {_CUDA_PACKAGES}")
    if _TOO_OLD.search(log) or _older(facts.nvidia.cuda, build.get("cuda_version")):
        return _old_driver(facts, name)
    missing = missing_libraries(log)
    if missing:
        text = f"{name} is there, but TensorFlow does not find {', '.join(missing)}."
        if "libcuda.so.1" in missing:
            return GPU.limited(text, "ldconfig -p | grep libcuda, and reinstall NVIDIA's driver")
        return GPU.limited(text, _CUDA_PACKAGES)
    wrong = next((one for one in facts.cuda_packages if not one.fits), None)
    if wrong is not None:
        state = f"is {wrong.installed}, not {wrong.wanted}" if wrong.installed else "is not installed"
        text = f"{name} is there, but TensorFlow sees none: {wrong.name} {state}."
        return GPU.limited(text, _CUDA_PACKAGES)
    return GPU.limited(
        f"{name} is there, but TensorFlow sees no GPU, and does not say why.",
        "TF_CPP_MAX_VLOG_LEVEL=1 python -c 'import tensorflow as tf; tf.config.list_physical_devices()'",
    )


def _old_driver(facts: Facts, name: str) -> Line:
    wanted = facts.tensorflow.found.get("tensorflow", {}).get("cuda_version", "")
    driver = facts.nvidia.cards[0].driver if facts.nvidia.cards else ""
    runs = f" (CUDA {facts.nvidia.cuda} at most)" if facts.nvidia.cuda else ""
    text = f"{name}: driver {driver}{runs} is too old for TensorFlow's CUDA {wanted}."
    return GPU.limited(text, "install a newer NVIDIA driver, then: nvidia-smi")


def _older(driver: str, wanted: object) -> bool:
    """Whether the driver's CUDA has an older major version; minor versions work with each other."""
    majors = [str(text).partition(".")[0] for text in (driver, wanted or "")]
    return all(major.isdigit() for major in majors) and int(majors[0]) < int(majors[1])
