from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.desk.screen import Screen, on_a_screen
from tests.end2end.test_cli_doctor import doctor, stub, text

pytest.importorskip("PySide6")

ROOT = Path(__file__).resolve().parents[2]
EXPLORE = ("-m", "checkmate", "explore")
PATIENCE_S = 60.0
NO_DISPLAY = "has no display to open a window on"
UNREACHABLE = "Qt cannot reach display :987"
WAYS_OUT = ("ssh -X", "DISPLAY=:0", "--screenshot", "checkmate run")


def bare(folder: Path, **variables: str) -> dict[str, str]:
    """Return an environment without a display. The window keeps its files in ``folder``."""
    own = {"DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"}
    given = {name: value for name, value in os.environ.items() if name not in own}
    return {**given, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(folder / "state"), **variables}


def explore(folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command, or any of Python, to its end."""
    return subprocess.run(
        [sys.executable, *(command or EXPLORE)],
        env=bare(folder, **variables),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


@contextmanager
def started(folder: Path, **variables: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, *EXPLORE],
        env=bare(folder, **variables),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


def until(true: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end, "no window came up"
        time.sleep(0.1)


@pytest.mark.parametrize(("variables", "sentence"), [({}, NO_DISPLAY), ({"DISPLAY": ":987"}, UNREACHABLE)])
def test_no_display(tmp_path: Path, variables: dict[str, str], sentence: str) -> None:
    done = explore(tmp_path, **variables)
    said, hint = done.stderr.splitlines()
    assert done.returncode == 2 and said.startswith("checkmate: the window cannot start: ")
    assert sentence in said and all(way in hint for way in WAYS_OUT)
    assert not (tmp_path / "state").exists()  # no window was made


def test_no_display_in_python(tmp_path: Path) -> None:
    code = "from app.bootstrap import WindowUnavailableError, explore\ntry: explore(None)\nexcept "
    done = explore(tmp_path, "-c", f"{code}WindowUnavailableError as error: print(error)")
    assert NO_DISPLAY in done.stdout, done.stderr


def test_a_missing_system_library(tmp_path: Path) -> None:
    reason = "libEGL.so.1: cannot open shared object file: No such file or directory"
    stub(tmp_path, "PySide6", f"raise ImportError({reason!r})\n")
    done = explore(tmp_path, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert done.returncode == 2 and "needs the system library libEGL.so.1" in done.stderr
    assert "apt-get install libegl1" in done.stderr


def test_an_unknown_platform(tmp_path: Path) -> None:
    done = explore(tmp_path, QT_QPA_PLATFORM="potato")
    assert done.returncode == 2 and "Qt has no plug-in for the platform 'potato'" in done.stderr


def test_a_chosen_platform_is_respected(tmp_path: Path) -> None:
    with started(tmp_path, QT_QPA_PLATFORM="offscreen", DISPLAY=":987") as process:
        until((tmp_path / "state" / "checkmate-explorer" / "window.log").is_file, process)


@on_a_screen
def test_a_display_that_answers(tmp_path: Path) -> None:
    screen = Screen(tmp_path / "screen", size=(800, 600))
    try:
        search = ("xdotool", "search", "--onlyvisible", "--name", "Checkmate Explorer")
        with started(tmp_path, DISPLAY=screen.display) as process:
            until(lambda: bool(screen.run(*search).stdout), process)
    finally:
        screen.close()


@pytest.mark.heavy
@pytest.mark.parametrize(("variables", "sentence"), [({}, NO_DISPLAY), ({"DISPLAY": ":987"}, UNREACHABLE)])
def test_the_doctor_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], sentence: str
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    stubs = stub(tmp_path, "tensorflow", "raise ImportError('not asked for')\n")
    said = doctor("--json", stubs=stubs, environment=variables).stdout
    found = next(line for line in json.loads(said)["lines"] if line["name"] == "window")
    assert sentence in text(said, "window") and all(way in found["mend"] for way in WAYS_OUT)
