from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from checkmate.doctor.diagnosis import Diagnosis, Facts, Folder, Library, Line, Part
from checkmate.doctor.tensorflow_lines import NOT_OPENED, gpu_line, keras_line, step_lines, tensorflow_line
from checkmate.processes.stages import Probe
from checkmate.units import format_bytes

_LEAST_FREE = 2**30  # a trace and an exported step take tens of megabytes, now and then hundreds

PYTHON = Part("python", "Python")
LIBRARIES = Part("libraries", "Libraries")
MACHINE = Part("machine", "Processor")
SOLVERS = Part("solvers", "Solvers", needed=True)
WINDOW = Part("window", "Window")


def diagnose(facts: Facts, seconds: float) -> Diagnosis:
    host = facts.host
    lines = (
        PYTHON.ok(f"{host.python} on {host.system}; Checkmate Explorer {facts.version}."),
        _libraries(facts.libraries),
        tensorflow_line(facts),
        keras_line(facts.tensorflow),
        MACHINE.ok(
            f"{host.processor}, {host.cores} core{'s' * (host.cores != 1)}, "
            f"{format_bytes(host.memory_bytes)}, {format_bytes(host.free_bytes)} of it free."
        ),
        gpu_line(facts),
        *step_lines(facts),
        _solvers(facts.solvers),
        window_line(facts.window, facts.environment),
        *map(_folder, facts.folders),
    )
    return Diagnosis(tuple(line for line in lines if line is not None), seconds, asdict(facts))


def _libraries(libraries: Sequence[Library]) -> Line:
    if not libraries:
        text = "The program is not installed, so the versions it needs are not known."
        return LIBRARIES.limited(text, "pip install checkmate-explorer")
    wrong = [one for one in libraries if not one.fits]
    if not wrong:
        shown = [f"{one.name} {one.installed}" for one in libraries if one.name in _NEEDED_TO_SOLVE]
        return LIBRARIES.ok(f"{len(libraries)} libraries in the right version: {', '.join(shown)}, …")
    found = [
        f"{one.name} {one.installed} is installed, but {one.wanted} is needed"
        if one.installed
        else f"{one.name} is not installed"
        for one in wrong
    ]
    mend = "pip install " + " ".join(f"'{one.name}{one.wanted}'" for one in wrong)
    return LIBRARIES.limited(f"{'; '.join(found)}.", mend)


_NEEDED_TO_SOLVE = ("numpy", "llvmlite", "highspy")  # by ``auto``; other libraries are for single solvers
_SINGLE_SOLVERS = {"pulp": "milp", "ortools.sat.python.cp_model": "intervals"}


def _solvers(probe: Probe) -> Line:
    if probe.crashed:
        name = probe.stage or _NEEDED_TO_SOLVE[-1]
        return SOLVERS.missing(f"Importing {name} ended the process ({probe.why()}).", _reinstall(name))
    broken = [name for name in _NEEDED_TO_SOLVE if name in probe.errors]
    if broken:
        text = f"{broken[0]} cannot be imported: {probe.errors[broken[0]]}."
        return SOLVERS.missing(text, _reinstall(*broken))
    for name, solver in _SINGLE_SOLVERS.items():
        if name in probe.errors:
            text = f"The solver {solver} cannot be used: {probe.errors[name]}."
            return SOLVERS.limited(text, _reinstall(name))
    return SOLVERS.ok("All solvers can be loaded.")


def _reinstall(*modules: str) -> str:
    return f"pip install --force-reinstall {' '.join(name.partition('.')[0] for name in modules)}"


def _folder(folder: Folder) -> Line:
    part = Part(folder.name, folder.title, needed=folder.name == "temporary")
    path = _short(folder.path)
    if folder.problem:
        text = f"{path or 'No folder'} cannot be written to: {folder.problem}."
        if part.needed:
            return part.missing(text, "set TMPDIR to a folder that can be written to")
        variable = "XDG_STATE_HOME" if folder.name == "sessions" else "XDG_CACHE_HOME"
        return part.limited(text, f"mkdir -p {path}, or set {variable} to a folder that can be written to")
    if folder.free_bytes < _LEAST_FREE:
        text = f"{path}: only {format_bytes(folder.free_bytes)} are free on its disk."
        return part.limited(text, f"free some space on the disk of {path}")
    size = f", {format_bytes(folder.bytes)}" if folder.bytes else ""
    note = f"; {folder.note}" if folder.note else ""
    return part.ok(f"{path}{size}{note}.")


def _short(path: str) -> str:
    home = str(Path.home())
    return f"~{path[len(home) :]}" if path.startswith(home + os.sep) else path


# The window: Qt, its system libraries, the display.

_XCB = re.compile(r"libxcb-([a-z0-9]+(?:-[a-z0-9]+)*)\.so\.(\d+)")
# Package names of Debian and Ubuntu; the names of xcb's packages follow a rule.
_PACKAGES = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libX11-xcb.so.1": "libx11-xcb1",
    "libX11.so.6": "libx11-6",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
    "libfreetype.so.6": "libfreetype6",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libgthread-2.0.so.0": "libglib2.0-0",
    "libxcb.so.1": "libxcb1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
    "libxkbcommon.so.0": "libxkbcommon0",
}
_ALL = "libegl1 libgl1 libglib2.0-0 libdbus-1-3 libfontconfig1 libxkbcommon0 libxcb-cursor0"
_ELSEWHERE = (
    "connect by ssh -X, or export DISPLAY=:0 on the machine itself; without a window: checkmate explore unet "
    "--screenshot a.png, or checkmate run unet --budget 60% -o out"
)
_REINSTALL_QT = _reinstall("PySide6-Essentials")


def window_line(probe: Probe, environment: Mapping[str, str]) -> Line:
    for stage, what in (("qt", "Qt"), ("widgets", "Qt"), ("plotting", "pyqtgraph")):
        if stage in probe.errors:
            return _not_imported(what, probe.errors[stage])
    plugin_lacks = list(probe.found.get("plugin", ()))
    if probe.crashed:
        return _crashed(probe, plugin_lacks, environment)
    if "screen" in probe.errors:
        return WINDOW.missing(f"Qt cannot start: {probe.errors['screen']}.", _install(plugin_lacks))
    screen = probe.found.get("screen", {})
    version, platform = probe.found.get("qt", ""), screen.get("platform", "")
    if platform in ("offscreen", "minimal"):
        chosen = environment.get("QT_QPA_PLATFORM")
        if chosen:
            text = f"Qt {version} draws without a screen, by QT_QPA_PLATFORM={chosen}."
            return WINDOW.limited(text, "unset QT_QPA_PLATFORM")
        text = f"Qt {version} has no display to open a window on, and can only draw pictures."
        return WINDOW.limited(text, _ELSEWHERE)
    size = " × ".join(str(side) for side in screen.get("size", ()))
    return WINDOW.ok(f"Qt {version} on {platform}{f', screen {size}' if size else ''}.")


def _install(libraries: Sequence[str]) -> str:
    packages = []
    for name in libraries:
        xcb = _XCB.fullmatch(name)
        packages.append(_PACKAGES.get(name) or (f"libxcb-{xcb[1]}{xcb[2]}" if xcb else ""))
    return f"apt-get install {' '.join(dict.fromkeys(filter(None, packages))) or _ALL}"


def _not_imported(what: str, error: str) -> Line:
    library = NOT_OPENED.search(error)
    if library is not None:
        text = f"{what} needs the system library {library[1]}, which is not there."
        return WINDOW.missing(text, _install([library[1]]))
    if "No module named" in error:
        return WINDOW.missing(f"{what} is not installed.", "pip install checkmate-explorer")
    return WINDOW.missing(f"{what} cannot be imported: {error}.", _REINSTALL_QT)


def _crashed(probe: Probe, missing: list[str], environment: Mapping[str, str]) -> Line:
    if probe.stage != "screen":
        return WINDOW.missing(f"Qt ended its process while it was imported ({probe.why()}).", _REINSTALL_QT)
    unanswered = probe.code is None or "could not connect to display" in probe.log
    if "xcb-cursor0" in probe.log and not missing and not unanswered:  # Qt names it without a display, too
        missing = ["libxcb-cursor.so.0"]
    display = environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY") or ""
    if missing:
        text = f"Qt cannot open display {display}: {', '.join(missing)} not there."
        return WINDOW.missing(text, _install(missing))
    if unanswered:
        return WINDOW.missing(f"Qt cannot reach display {display}.", _ELSEWHERE)
    if "Could not find the Qt platform plugin" in probe.log:
        chosen = environment.get("QT_QPA_PLATFORM", "")
        text = f"Qt has no plug-in for the platform {chosen!r}."
        return WINDOW.missing(text, "unset QT_QPA_PLATFORM QT_PLUGIN_PATH")
    return WINDOW.missing(f"Qt ended its process as it started ({probe.why()}).", _install(missing))
