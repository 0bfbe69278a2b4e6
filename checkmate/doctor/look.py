"""Gather the facts about this machine.

What may crash or hang runs in child processes with a time limit, all at once.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from checkmate import __version__
from checkmate.doctor.child import probe
from checkmate.doctor.facts.folders import folders_here
from checkmate.doctor.facts.host import host_here
from checkmate.doctor.facts.libraries import cuda_packages_here, libraries_here
from checkmate.doctor.facts.nvidia import nvidia_here
from checkmate.doctor.facts.values import Facts, Nvidia, Probe
from checkmate.errors import CancelledError
from checkmate.progress import Cancelled, Progress, Report

LIMIT_S = 90.0  # for a child; importing TensorFlow takes seconds, or a minute on a busy machine
_POLL_S = 0.1
_SOLVERS = ("numpy", "llvmlite", "highspy", "pulp")
_INTERVALS = ("ortools.sat.python.cp_model",)  # in its own process: its HiGHS conflicts with highspy's
_WATCHED = (
    "CUDA_VISIBLE_DEVICES",
    "DISPLAY",
    "KERAS_BACKEND",
    "LD_LIBRARY_PATH",
    "QT_PLUGIN_PATH",
    "QT_QPA_PLATFORM",
    "TF_ENABLE_ONEDNN_OPTS",
    "TF_FORCE_GPU_ALLOW_GROWTH",
    "TF_GPU_ALLOCATOR",
    "TF_USE_LEGACY_KERAS",
    "TF_XLA_FLAGS",
    "WAYLAND_DISPLAY",
    "XDG_CACHE_HOME",
)

# Makes TensorFlow log the libraries that it does not find.
_TALKATIVE = {"TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_VMODULE": "dso_loader=1"}
_NO_GPU = {"CUDA_VISIBLE_DEVICES": "-1"}
_CHILD = "checkmate.doctor.child_entry"
_T = TypeVar("_T")


def look_around(*, limit_s: float = LIMIT_S, report: Report, cancelled: Cancelled) -> Facts:
    """Gather the facts of this machine.

    A child that takes longer than ``limit_s`` is stopped; that is a fact too.

    Raises:
        CancelledError: the user cancelled; the children are gone.
    """
    environment = {name: os.environ[name] for name in _WATCHED if name in os.environ}
    stopped = threading.Event()

    def look_at(*module: str, environment: Mapping[str, str] = {}) -> Probe:
        return probe(module, limit_s=limit_s, cancelled=stopped.is_set, environment=environment)

    with ThreadPoolExecutor(max_workers=5) as pool:
        nvidia = pool.submit(nvidia_here)
        parts: dict[str, Future[object]] = {}

        def begin(name: str, work: Callable[[], _T]) -> Future[_T]:
            future = pool.submit(work)
            parts[name] = future  # type: ignore[assignment]
            return future

        try:  # Ctrl-C may come as soon as the first child runs
            looked = begin("TensorFlow", lambda: _look_at_tensorflow(look_at, nvidia))
            window = begin("the window", lambda: look_at("app.look"))
            solvers = begin("solvers", lambda: look_at(_CHILD, "import", *_SOLVERS))
            intervals = begin("solvers", lambda: look_at(_CHILD, "import", *_INTERVALS))
            _wait(parts, report, cancelled)
        except BaseException:
            stopped.set()
            raise
        first, without_gpu = looked.result()
        return Facts(
            host=host_here(),
            version=__version__,
            libraries=libraries_here(),
            tensorflow=first,
            without_gpu=without_gpu,
            solvers=_joined(solvers.result(), intervals.result()),
            window=window.result(),
            nvidia=nvidia.result(),
            cuda_packages=cuda_packages_here(),
            folders=folders_here(window.result().found.get("state")),
            environment=environment,
        )


def _look_at_tensorflow(look_at: Callable[..., Probe], nvidia: Future[Nvidia]) -> tuple[Probe, Probe | None]:
    """Return what TensorFlow tells, and what it tells without a GPU.

    The second is asked for only where it crashed beside a GPU.
    """
    first = look_at(_CHILD, "tensorflow", environment=_TALKATIVE)
    if not first.crashed or not nvidia.result().installed:
        return first, None
    # One process at a time on the GPU: the first has ended.
    return first, look_at(_CHILD, "tensorflow", environment={**_TALKATIVE, **_NO_GPU})


def _wait(parts: Mapping[str, Future[object]], report: Report, cancelled: Cancelled) -> None:
    while waiting := [name for name, part in parts.items() if not part.done()]:
        if cancelled():
            raise CancelledError("cancelled")
        report(Progress("look", len(parts) - len(waiting), len(parts), f"looking at {waiting[0]}"))
        time.sleep(_POLL_S)
    if cancelled():
        raise CancelledError("cancelled")  # the results may come from children that Ctrl-C ended


def _joined(one: Probe, other: Probe) -> Probe:
    """Return the results of two child processes as one.

    The end of the first one counts. Where only the second crashed, that is an error of its stage.
    """
    errors = {**one.errors, **other.errors}
    if other.crashed:
        errors[other.stage] = other.why()
    return Probe(
        {**one.found, **other.found},
        errors,
        one.stage,
        one.code,
        one.log + other.log,
        max(one.seconds, other.seconds),
    )
