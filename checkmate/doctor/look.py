"""The facts about this machine; what may crash or hang runs in child processes, all at once."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from checkmate import __version__
from checkmate.doctor.diagnosis import Facts, Folder, Host, Library, ListedCard, Nvidia
from checkmate.machine.cost_store import default_path, plans_folder
from checkmate.machine.device_memory import ask_for_table, ask_nvidia_smi, mebibytes, table_rows
from checkmate.machine.load import usable_cores
from checkmate.machine.processor import this_processor
from checkmate.machine.supported import versions
from checkmate.processes.stages import Probe, probe
from checkmate.progress import Cancelled, Progress, Report, stop_if

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


def look_around(*, limit_s: float = LIMIT_S, report: Report, cancelled: Cancelled) -> Facts:
    """A child process that takes longer than ``limit_s`` is stopped, and that is reported.

    Raises:
        CancelledError: the user cancelled; the children are gone.
    """
    stopped = threading.Event()

    def look_at(*module: str, environment: Mapping[str, str] = {}) -> Probe:
        return probe(module, limit_s=limit_s, cancelled=stopped.is_set, environment=environment)

    def look_at_tensorflow(nvidia: Future[Nvidia]) -> tuple[Probe, Probe | None]:
        first = look_at(_CHILD, "tensorflow", environment=_TALKATIVE)
        if not first.crashed or not nvidia.result().installed:
            return first, None
        # It crashed beside a GPU. The first process has ended: one at a time on the GPU.
        return first, look_at(_CHILD, "tensorflow", environment={**_TALKATIVE, **_NO_GPU})

    with ThreadPoolExecutor(max_workers=5) as pool:
        nvidia = pool.submit(nvidia_here)
        try:  # Ctrl-C may come as soon as the first child runs
            looked = pool.submit(look_at_tensorflow, nvidia)
            window = pool.submit(look_at, "app.look")
            solvers = pool.submit(look_at, _CHILD, "import", *_SOLVERS)
            intervals = pool.submit(look_at, _CHILD, "import", *_INTERVALS)
            _wait(
                {"TensorFlow": [looked], "the window": [window], "solvers": [solvers, intervals]},
                report,
                cancelled,
            )
        except BaseException:
            stopped.set()
            raise
        first, without_gpu = looked.result()
        return Facts(
            host=host_here(),
            version=__version__,
            libraries=tuple(wanted_by("checkmate-explorer")),
            tensorflow=first,
            without_gpu=without_gpu,
            solvers=_joined(solvers.result(), intervals.result()),
            window=window.result(),
            nvidia=nvidia.result(),
            cuda_packages=tuple(wanted_by("tensorflow", extra="and-cuda")),
            folders=folders_here(window.result().found.get("state")),
            environment={name: os.environ[name] for name in _WATCHED if name in os.environ},
        )


def _wait(parts: Mapping[str, Sequence[Future[Any]]], report: Report, cancelled: Cancelled) -> None:
    while waiting := [name for name, futures in parts.items() if not all(one.done() for one in futures)]:
        stop_if(cancelled)
        report(Progress("look", len(parts) - len(waiting), len(parts), f"looking at {waiting[0]}"))
        time.sleep(_POLL_S)
    stop_if(cancelled)  # the results may come from children that Ctrl-C ended


def _joined(one: Probe, other: Probe) -> Probe:
    errors = {**one.errors, **other.errors}
    if other.crashed:
        errors[other.stage] = other.why()
    found, seconds = {**one.found, **other.found}, max(one.seconds, other.seconds)
    return Probe(found, errors, one.stage, one.code, one.log + other.log, seconds)


def host_here() -> Host:
    memory = psutil.virtual_memory()
    processor = this_processor()
    try:
        system = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        system = ""
    return Host(
        python=f"{platform.python_implementation()} {platform.python_version()}",
        executable=sys.executable,
        system=f"{system or f'{platform.system()} {platform.release()}'}, {platform.machine()}",
        processor=processor.name,
        avx=processor.avx,
        cores=usable_cores(),
        memory_bytes=int(memory.total),
        free_bytes=int(memory.available),
    )


_NVIDIA_S = 20.0  # waking up many cards takes seconds each
_CARD = ("name", "memory.total", "memory.free", "driver_version", "compute_cap", "compute_mode")
_CUDA = re.compile(r"CUDA (?:UMD )?Version\s*:\s*([\d.]+)")


def nvidia_here() -> Nvidia:
    if shutil.which("nvidia-smi") is None:
        return Nvidia(installed=False)
    listed, problem = ask_for_table(_CARD, limit_s=_NVIDIA_S)
    if problem:
        return Nvidia(installed=True, problem=problem)
    shown, _ = ask_nvidia_smi(limit_s=_NVIDIA_S)
    cuda = _CUDA.search(shown)
    return Nvidia(installed=True, cards=cards_of(listed), cuda=cuda[1] if cuda else "")


def cards_of(listed: str) -> tuple[ListedCard, ...]:
    return tuple(
        ListedCard(
            row["name"],
            mebibytes(row["memory.total"]) or 0,
            mebibytes(row["memory.free"]) or 0,
            row["driver_version"],
            row["compute_cap"],
            "Exclusive" in row["compute_mode"],
        )
        for row in table_rows(listed, _CARD)
    )


def wanted_by(package: str, *, extra: str = "") -> Iterator[Library]:
    """What an installed ``package`` requires by name, or only its ``extra`` does."""
    try:
        from packaging.requirements import InvalidRequirement, Requirement

        lines = metadata.requires(package) or []
    except (ModuleNotFoundError, metadata.PackageNotFoundError):
        return
    for line in lines:
        try:
            wanted = Requirement(line)
        except InvalidRequirement:
            continue
        marker = wanted.marker
        if marker is not None and not marker.evaluate({"extra": extra}):
            continue
        if extra and (marker is None or marker.evaluate({"extra": ""})):
            continue  # also required without the extra
        installed = versions([wanted.name]).get(wanted.name, "")
        fits = bool(installed) and wanted.specifier.contains(installed, prereleases=True)
        yield Library(wanted.name, str(wanted.specifier), installed, fits)


def folders_here(sessions: str | None) -> tuple[Folder, ...]:
    """``sessions``: the saved explorations, where known."""
    found = [
        folder_at("cost-cache", "Cost cache", default_path().parent),
        folder_at("plan-cache", "Plan cache", plans_folder()),
        _kernels(),
    ]
    if sessions is not None:
        found.append(folder_at("sessions", "Explorations", Path(sessions)))
    try:
        found.append(folder_at("temporary", "Temp folder", Path(tempfile.gettempdir()), counted=False))
    except OSError as error:  # Python found no place that can be written to
        found.append(Folder("temporary", "Temp folder", "", 0, 0, error.strerror or str(error)))
    return tuple(found)


def _kernels() -> Folder:
    from checkmate.solvers.compile.cache import cache_folder, is_compiled

    try:
        note = "compiled" if is_compiled() else "the first search compiles them, once"
    except ImportError:  # llvmlite: the solvers' line says so
        note = ""
    return folder_at("kernel-cache", "Kernel cache", cache_folder(), note=note)


def folder_at(name: str, title: str, path: Path, *, note: str = "", counted: bool = True) -> Folder:
    """``counted``: with the sizes of its files."""
    there = next(folder for folder in (path.absolute(), *path.absolute().parents) if os.path.exists(folder))
    problem = "" if there.is_dir() else f"{there} is a file, not a folder"
    if not problem:
        try:
            with tempfile.TemporaryFile(dir=there) as file:
                file.write(b"x")
        except OSError as error:
            problem = error.strerror or str(error)
    try:
        free = shutil.disk_usage(there).free
    except OSError:
        free = 0
    return Folder(name, title, str(path), _bytes_in(path) if counted else 0, free, problem, note)


def _bytes_in(path: Path) -> int:
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue
    return total
