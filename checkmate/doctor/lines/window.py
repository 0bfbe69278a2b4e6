"""Make the line on the window: Qt, its system libraries, the display."""

from __future__ import annotations

import re
from collections.abc import Mapping

from checkmate.doctor.diagnosis import Line, PartState
from checkmate.doctor.facts.values import Probe

_LIBRARY = re.compile(r"(lib[\w.+-]+\.so[\w.]*): cannot open shared object file")
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
_CONNECT = "connect by ssh -X, or export DISPLAY=:0 on the machine itself"
_WITHOUT = (
    "without a window: checkmate explore unet --screenshot a.png, or checkmate run unet --budget 60% -o out"
)


def window_line(probe: Probe, environment: Mapping[str, str]) -> Line:
    """Return the line on the window, which the main job does not need."""
    for stage, what in (("qt", "Qt"), ("widgets", "Qt"), ("plotting", "pyqtgraph")):
        if stage in probe.errors:
            return _not_imported(what, probe.errors[stage])
    if probe.crashed:
        return _crashed(probe, environment)
    if "screen" in probe.errors:
        return _line(
            PartState.MISSING,
            f"Qt cannot start: {probe.errors['screen']}.",
            install(probe.found.get("plugin", ())),
        )
    screen = probe.found.get("screen", {})
    version, platform = probe.found.get("qt", ""), screen.get("platform", "")
    if platform in ("offscreen", "minimal"):
        chosen = environment.get("QT_QPA_PLATFORM")
        if chosen:
            text = f"Qt {version} draws without a screen, by QT_QPA_PLATFORM={chosen}."
            return _line(PartState.LIMITED, text, "unset QT_QPA_PLATFORM")
        text = f"Qt {version} has no display to open a window on, and can only draw pictures."
        return _line(PartState.LIMITED, text, f"{_CONNECT}; {_WITHOUT}")
    size = " × ".join(str(side) for side in screen.get("size", ()))
    return _line(PartState.OK, f"Qt {version} on {platform}{f', screen {size}' if size else ''}.")


def install(libraries: tuple[str, ...] | list[str]) -> str:
    """Return the command that installs the given system libraries. ``libraries`` are file names."""
    packages = [package for name in libraries if (package := package_of(name))]
    return f"apt-get install {' '.join(dict.fromkeys(packages)) or _ALL}"


def package_of(library: str) -> str:
    """Return the Debian package that brings the file ``library``. Empty where that is not known."""
    xcb = _XCB.fullmatch(library)
    return _PACKAGES.get(library) or (f"libxcb-{xcb[1]}{xcb[2]}" if xcb else "")


def _line(state: PartState, text: str, mend: str = "") -> Line:
    return Line("window", "Window", state, text, mend)


def _not_imported(what: str, error: str) -> Line:
    library = _LIBRARY.search(error)
    if library is not None:
        text = f"{what} needs the system library {library[1]}, which is not there."
        return _line(PartState.MISSING, text, install([library[1]]))
    if "No module named" in error:
        return _line(PartState.MISSING, f"{what} is not installed.", "pip install checkmate-explorer")
    return _line(
        PartState.MISSING,
        f"{what} cannot be imported: {error}.",
        "pip install --force-reinstall PySide6-Essentials",
    )


def _crashed(probe: Probe, environment: Mapping[str, str]) -> Line:
    if probe.stage != "screen":
        text = f"Qt ended its process while it was imported ({probe.why()})."
        return _line(PartState.MISSING, text, "pip install --force-reinstall PySide6-Essentials")
    missing = list(probe.found.get("plugin", ()))
    unanswered = probe.code is None or "could not connect to display" in probe.log
    if "xcb-cursor0" in probe.log and not missing and not unanswered:  # Qt names it without a display, too
        missing = ["libxcb-cursor.so.0"]
    display = environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY") or ""
    if missing:
        names = ", ".join(missing)
        return _line(
            PartState.MISSING, f"Qt cannot open display {display}: {names} not there.", install(missing)
        )
    if unanswered:
        return _line(PartState.MISSING, f"Qt cannot reach display {display}.", f"{_CONNECT}; {_WITHOUT}")
    if "Could not find the Qt platform plugin" in probe.log:
        chosen = environment.get("QT_QPA_PLATFORM", "")
        return _line(
            PartState.MISSING,
            f"Qt has no plug-in for the platform {chosen!r}.",
            "unset QT_QPA_PLATFORM QT_PLUGIN_PATH",
        )
    return _line(PartState.MISSING, f"Qt ended its process as it started ({probe.why()}).", install(missing))
