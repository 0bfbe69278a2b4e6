"""Turn facts into lines: what each fact means, and how to fix it."""

from __future__ import annotations

import os
from pathlib import Path

from checkmate.doctor.diagnosis import Diagnosis, Line, PartState
from checkmate.doctor.facts.values import Facts, Folder, Host, Library, Probe
from checkmate.doctor.lines.gpu import gpu_line
from checkmate.doctor.lines.tensorflow import tensorflow_lines
from checkmate.doctor.lines.window import window_line
from checkmate.units import format_bytes

_LEAST_FREE = 2**30  # a trace and an exported step take tens of megabytes, now and then hundreds
_NEEDED_TO_SOLVE = ("numpy", "llvmlite", "highspy")  # by ``auto``; other libraries are for single solvers
_SOLVERS = {"pulp": "milp", "ortools.sat.python.cp_model": "intervals"}
_ORDER = (
    "python",
    "libraries",
    "tensorflow",
    "keras",
    "machine",
    "gpu",
    "kernels",
    "meter",
    "profiler",
    "xla",
    "solvers",
    "window",
    "cost-cache",
    "plan-cache",
    "kernel-cache",
    "sessions",
    "temporary",
)
_SHOWN = ("numpy", "llvmlite", "highspy")  # the libraries to show where all have the wanted versions


def diagnose(facts: Facts, seconds: float) -> Diagnosis:
    """Return all lines on ``facts``, in the order to read them."""
    lines = (
        _python(facts),
        *tensorflow_lines(facts),
        _machine(facts.host),
        gpu_line(facts),
        _solvers(facts.solvers),
        window_line(facts.window, facts.environment),
        *(_folder(folder) for folder in facts.folders),
        *_libraries(facts.libraries),
    )
    ranked = sorted(lines, key=lambda line: _ORDER.index(line.name))
    return Diagnosis(tuple(ranked), seconds, facts.to_json())


def _python(facts: Facts) -> Line:
    host = facts.host
    text = f"{host.python} on {host.system}; Checkmate Explorer {facts.version}."
    return Line("python", "Python", PartState.OK, text)


def _machine(host: Host) -> Line:
    text = (
        f"{host.processor}, {host.cores} core{'s' * (host.cores != 1)}, {format_bytes(host.memory_bytes)}, "
        f"{format_bytes(host.free_bytes)} of it free."
    )
    return Line("machine", "Processor", PartState.OK, text)


def _solvers(probe: Probe) -> Line:
    def line(state: PartState, text: str, mend: str = "") -> Line:
        return Line("solvers", "Solvers", state, text, mend, needed=True)

    if probe.crashed:
        name = probe.stage or _NEEDED_TO_SOLVE[-1]
        text = f"Importing {name} ended the process ({probe.why()})."
        return line(PartState.MISSING, text, f"pip install --force-reinstall {package_of(name)}")
    broken = [name for name in _NEEDED_TO_SOLVE if name in probe.errors]
    if broken:
        names = " ".join(package_of(name) for name in broken)
        text = f"{broken[0]} cannot be imported: {probe.errors[broken[0]]}."
        return line(PartState.MISSING, text, f"pip install --force-reinstall {names}")
    less = [name for name in _SOLVERS if name in probe.errors]
    if less:
        text = f"The solver {_SOLVERS[less[0]]} cannot be used: {probe.errors[less[0]]}."
        return line(PartState.LIMITED, text, f"pip install --force-reinstall {package_of(less[0])}")
    return line(PartState.OK, "All solvers can be loaded.")


def package_of(module: str) -> str:
    """Return the package that brings ``module``."""
    return module.partition(".")[0]


def _folder(folder: Folder) -> Line:
    needed = folder.name == "temporary"
    path = _short(folder.path)
    if folder.problem:
        mend = "set TMPDIR to a folder that can be written to" if needed else _writable(folder)
        state = PartState.MISSING if needed else PartState.LIMITED
        text = f"{path or 'No folder'} cannot be written to: {folder.problem}."
        return Line(folder.name, folder.title, state, text, mend, needed)
    size = f", {format_bytes(folder.bytes)}" if folder.bytes else ""
    note = f"; {folder.note}" if folder.note else ""
    if folder.free_bytes < _LEAST_FREE:
        text = f"{path}: only {format_bytes(folder.free_bytes)} are free on its disk."
        mend = f"free some space on the disk of {path}"
        return Line(folder.name, folder.title, PartState.LIMITED, text, mend, needed)
    return Line(folder.name, folder.title, PartState.OK, f"{path}{size}{note}.", needed=needed)


def _short(path: str) -> str:
    home = str(Path.home())
    return f"~{path[len(home) :]}" if path.startswith(home + os.sep) else path


def _writable(folder: Folder) -> str:
    variable = "XDG_STATE_HOME" if folder.name == "sessions" else "XDG_CACHE_HOME"
    return f"mkdir -p {_short(folder.path)}, or set {variable} to a folder that can be written to"


def _libraries(libraries: tuple[Library, ...]) -> tuple[Line, ...]:
    title = "Libraries"
    if not libraries:
        text = "The program is not installed, so the versions it needs are not known."
        return (Line("libraries", title, PartState.LIMITED, text, "pip install checkmate-explorer"),)
    wrong = [library for library in libraries if not library.fits]
    if not wrong:
        shown = ", ".join(f"{one.name} {one.installed}" for one in libraries if one.name in _SHOWN)
        return (
            Line(
                "libraries",
                title,
                PartState.OK,
                f"{len(libraries)} libraries in the right version: {shown}, …",
            ),
        )
    found = [
        f"{one.name} {one.installed} is installed, but {one.wanted} is needed"
        if one.installed
        else f"{one.name} is not installed"
        for one in wrong
    ]
    mend = "pip install " + " ".join(f"'{one.name}{one.wanted}'" for one in wrong)
    return (Line("libraries", title, PartState.LIMITED, f"{'; '.join(found)}.", mend),)
