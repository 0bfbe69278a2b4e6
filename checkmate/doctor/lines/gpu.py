"""Make the line on the GPU.

It says what the driver sees, what TensorFlow sees, and what prevents its use.
"""

from __future__ import annotations

import re

from checkmate.doctor.diagnosis import Line, PartState
from checkmate.doctor.facts.values import Facts, Nvidia
from checkmate.units import format_bytes

_PACKAGES = "pip install 'checkmate-explorer[cuda]'"
_NOT_LOADED = re.compile(r"Could not load dynamic library '([^']+)'")
_NOT_OPENED = re.compile(r"(lib[\w.+-]+\.so[\w.]*): cannot open shared object file")
_TENSORRT = "libnvinfer"  # TensorFlow looks for it, but does not need it
_TOO_OLD = (
    "driver version is insufficient",
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED",
    "PTX was compiled with an unsupported",
)
_TAKEN = ("CUDA_ERROR_DEVICE_UNAVAILABLE", "busy or unavailable", "exclusive")
_NO_ROOM = ("CUDA_ERROR_OUT_OF_MEMORY", "out of memory")


def missing_libraries(log: str) -> tuple[str, ...]:
    """Return the libraries that TensorFlow's log reports as not found. They are in the log's order."""
    found = [match[1] for match in _NOT_LOADED.finditer(log)] + [
        match[1] for match in _NOT_OPENED.finditer(log)
    ]
    return tuple(name for name in dict.fromkeys(found) if not name.startswith(_TENSORRT))


def gpu_line(facts: Facts) -> Line:
    """Return the line on the GPU.

    A GPU is never needed, but one that is there and cannot be used is reported.
    """
    seen = facts.tensorflow.found.get("gpus")
    if seen:
        return _usable(facts, seen)
    nvidia = facts.nvidia
    if not nvidia.installed:
        mend = f"with an NVIDIA card: install its driver, check nvidia-smi, then {_PACKAGES}"
        return _line(PartState.LIMITED, "No GPU here (no nvidia-smi): steps run on the CPU.", mend)
    if nvidia.problem or not nvidia.cards:
        return _driver(nvidia)
    name = nvidia.cards[0].name
    if seen is None:
        return _line(
            PartState.LIMITED,
            f"{name} is there, but TensorFlow could not be asked about it.",
            "see TensorFlow's line",
        )
    return _unseen(facts, name)


def _line(state: PartState, text: str, mend: str = "") -> Line:
    return Line("gpu", "GPU", state, text, mend)


def _usable(facts: Facts, seen: list[dict[str, object]]) -> Line:
    """Return the line for a GPU that TensorFlow sees.

    The first GPU is described, since steps are measured on it.
    """
    log, cards = facts.tensorflow.log, facts.nvidia.cards
    name = str(seen[0]["name"])
    error = facts.tensorflow.errors.get("settings", "")
    if any(word in error for word in _TAKEN) or (error and cards and cards[0].exclusive):
        return _line(
            PartState.MISSING,
            f"{name} is taken by another process.",
            "end that process (nvidia-smi lists it), or use --device cpu",
        )
    if any(word in error for word in _NO_ROOM):
        return _line(
            PartState.MISSING,
            f"{name} has no memory free.",
            "nvidia-smi lists who holds it; end that process",
        )
    if any(word in log or word in error for word in _TOO_OLD):
        return _old_driver(facts, name)
    card = next((one for one in cards if one.name == name), cards[0] if cards else None)
    if card is None:
        return _line(PartState.OK, f"{name}.")
    more = f", the first of {len(seen)}" if len(seen) > 1 else ""
    text = (
        f"{name}{more}: {format_bytes(card.memory_bytes)}, {format_bytes(card.free_bytes)} of it free; "
        f"driver {card.driver}, compute capability {card.capability}."
    )
    if 2 * card.free_bytes < card.memory_bytes:
        return _line(PartState.LIMITED, text, "nvidia-smi lists who holds its memory")
    return _line(PartState.OK, text)


def _driver(nvidia: Nvidia) -> Line:
    if not nvidia.problem:
        return _line(
            PartState.LIMITED,
            "nvidia-smi lists no card; steps run on the CPU.",
            "in a container: docker run --gpus all …",
        )
    mend = "reinstall NVIDIA's driver, then: nvidia-smi"
    if "mismatch" in nvidia.problem:
        mend = "sudo reboot: the driver was updated while it ran"
    return _line(PartState.LIMITED, f"nvidia-smi fails: {nvidia.problem.rstrip('.')}.", mend)


def _unseen(facts: Facts, name: str) -> Line:
    """Return the line for a card that TensorFlow does not see.

    This is the most frequent failure. The reasons are tried in order.
    """
    hidden = facts.environment.get("CUDA_VISIBLE_DEVICES")
    if hidden is not None and (not hidden.strip() or hidden.strip().startswith("-")):
        text = f"{name} is hidden by CUDA_VISIBLE_DEVICES={hidden}."
        return _line(PartState.LIMITED, text, "unset CUDA_VISIBLE_DEVICES")
    build = facts.tensorflow.found.get("tensorflow", {})
    if build.get("is_cuda_build") is False:
        text = f"{name} is there, but this TensorFlow is built without CUDA."
        return _line(PartState.LIMITED, text, f"pip uninstall tensorflow-cpu; {_PACKAGES}")
    if any(word in facts.tensorflow.log for word in _TOO_OLD) or _older(
        facts.nvidia.cuda, build.get("cuda_version")
    ):
        return _old_driver(facts, name)
    missing = missing_libraries(facts.tensorflow.log)
    if missing:
        text = f"{name} is there, but TensorFlow does not find {', '.join(missing)}."
        driver = "libcuda.so.1" in missing
        return _line(
            PartState.LIMITED,
            text,
            "ldconfig -p | grep libcuda, and reinstall NVIDIA's driver" if driver else _PACKAGES,
        )
    wrong = [one for one in facts.cuda_packages if not one.fits]
    if wrong:
        state = "is not installed" if wrong[0].missing else f"is {wrong[0].installed}, not {wrong[0].wanted}"
        text = f"{name} is there, but TensorFlow sees none: {wrong[0].name} {state}."
        return _line(PartState.LIMITED, text, _PACKAGES)
    text = f"{name} is there, but TensorFlow sees no GPU, and does not say why."
    return _line(
        PartState.LIMITED,
        text,
        "TF_CPP_MAX_VLOG_LEVEL=1 python -c 'import tensorflow as tf; tf.config.list_physical_devices()'",
    )


def _old_driver(facts: Facts, name: str) -> Line:
    wanted = facts.tensorflow.found.get("tensorflow", {}).get("cuda_version", "")
    driver = facts.nvidia.cards[0].driver if facts.nvidia.cards else ""
    runs = f" (CUDA {facts.nvidia.cuda} at most)" if facts.nvidia.cuda else ""
    text = f"{name}: driver {driver}{runs} is too old for TensorFlow's CUDA {wanted}."
    return _line(PartState.LIMITED, text, "install a newer NVIDIA driver, then: nvidia-smi")


def _older(driver: str, wanted: object) -> bool:
    """Return whether the driver's CUDA has an older major version.

    Different minor versions work with each other.
    """
    majors = [str(text).partition(".")[0] for text in (driver, wanted or "")]
    return all(major.isdigit() for major in majors) and int(majors[0]) < int(majors[1])
