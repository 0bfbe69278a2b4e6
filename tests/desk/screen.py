"""A real X server without a monitor, its window manager, and its pixels.

Xvfb keeps its screen in a file. The file is mapped into memory here, so that a frame is read in milliseconds.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from app.look import missing_libraries

NEEDED = ("Xvfb", "openbox", "xdotool")
_PATIENCE_S = 20.0
# Where the header of the file (an XWD file, 32-bit words, the highest byte first) says what.
_HEADER_SIZE, _WIDTH, _HEIGHT, _LINE_BYTES, _COLORS = 0, 4, 5, 12, 19
_COLOR_BYTES = 12


@cache
def missing() -> tuple[str, ...]:
    """Return the programs and libraries that are needed and not installed."""
    return (*(name for name in NEEDED if shutil.which(name) is None), *missing_libraries())


on_a_screen = pytest.mark.skipif(bool(missing()), reason=f"not installed: {', '.join(missing())}")


class Screen:
    """An X server with a window manager, on a display number of its own."""

    def __init__(self, folder: Path, size: tuple[int, int] = (1920, 1200)) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        read, write = os.pipe()
        width, height = size
        self._server = subprocess.Popen(
            [
                *("Xvfb", "-displayfd", str(write), "-screen", "0", f"{width}x{height}x24"),
                *("-fbdir", str(folder), "-nolisten", "tcp", "-noreset"),
            ],
            pass_fds=(write,),
            stderr=subprocess.DEVNULL,
        )
        os.close(write)
        with os.fdopen(read) as told:
            number = told.readline().strip()  # comes once the server is ready
        assert number, "the X server did not start"
        self.display = f":{number}"
        self._x = ctypes.CDLL("libX11.so.6")
        self._x.XOpenDisplay.restype = ctypes.c_void_p
        self._connection = ctypes.c_void_p(self._x.XOpenDisplay(self.display.encode()))
        self.pixels = _mapped(folder / "Xvfb_screen0")
        self._manager = subprocess.Popen(
            ["openbox", "--sm-disable"],
            env={**os.environ, "DISPLAY": self.display, "HOME": str(folder)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._await_manager()

    def _await_manager(self) -> None:
        end = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end:
            if self.run("xdotool", "get_desktop").returncode == 0:  # an answer of the window manager
                return
            time.sleep(0.05)
        raise RuntimeError("the window manager did not start")

    def frame(self, rect: Sequence[int] | None = None) -> NDArray[np.uint32]:
        self._x.XGrabServer(self._connection)
        self._x.XSync(self._connection, 0)
        if rect is None:
            found = self.pixels.copy()
        else:
            x, y, wide, high = rect
            found = self.pixels[max(0, y) : y + high, max(0, x) : x + wide].copy()
        self._x.XUngrabServer(self._connection)
        self._x.XFlush(self._connection)
        return found

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env={**os.environ, "DISPLAY": self.display}, capture_output=True, text=True, check=False
        )

    def close(self) -> None:
        self._x.XCloseDisplay(self._connection)
        for process in (self._manager, self._server):
            process.terminate()
            try:
                process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:  # openbox can miss the signal
                process.kill()
                process.wait()


def _mapped(path: Path) -> NDArray[np.uint32]:
    with path.open("rb") as file:
        words = struct.unpack(">25I", file.read(100))
    start = words[_HEADER_SIZE] + words[_COLORS] * _COLOR_BYTES
    stride = words[_LINE_BYTES] // 4
    whole = np.memmap(path, np.uint32, "r", start, (words[_HEIGHT], stride))
    return whole[:, : words[_WIDTH]]
