"""A hand on the mouse and the keyboard.

The X server itself makes the events, by its XTEST extension.
"""

from __future__ import annotations

import ctypes
import string
import time
from types import TracebackType

from app.actions import action
from tests.desk.screen import Screen

_LEFT, _WHEEL_UP, _WHEEL_DOWN = 1, 4, 5
_FINGER_S = 0.03
_X_KEYS = {key: key.lower() for key in (*string.ascii_uppercase, "Space")}
_X_KEYS |= {".": "period", ",": "comma", "/": "slash", "Esc": "Escape"}


class Hand:
    """Moves the pointer, presses its left button, turns its wheel, and types."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._x, self._test = ctypes.CDLL("libX11.so.6"), ctypes.CDLL("libXtst.so.6")
        self._x.XOpenDisplay.restype = ctypes.c_void_p
        self._display = ctypes.c_void_p(self._x.XOpenDisplay(screen.display.encode()))
        assert self._display, "the X server does not answer"

    def __enter__(self) -> Hand:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._x.XCloseDisplay(self._display)

    def move(self, x: float, y: float) -> None:
        self._test.XTestFakeMotionEvent(self._display, 0, round(x), round(y), ctypes.c_ulong(0))
        self._x.XFlush(self._display)

    def press(self) -> None:
        self._button(True)

    def release(self) -> None:
        self._button(False)

    def click(self, x: float, y: float) -> None:
        self.move(x, y)
        time.sleep(_FINGER_S)
        self.press()
        time.sleep(_FINGER_S)
        self.release()

    def turn(self, notches: int) -> None:
        for _ in range(abs(notches)):
            for down in (True, False):
                self._button(down, _WHEEL_UP if notches > 0 else _WHEEL_DOWN)

    def _button(self, down: bool, which: int = _LEFT) -> None:
        self._test.XTestFakeButtonEvent(self._display, which, int(down), ctypes.c_ulong(0))
        self._x.XFlush(self._display)

    def key(self, *keys: str) -> None:
        assert self._screen.run("xdotool", "key", *keys).returncode == 0

    def command(self, name: str) -> None:
        """Press the key of a command of the window."""
        *held, key = action(name).key.split("+")
        self.key("+".join([*map(str.lower, held), _X_KEYS.get(key, key)]))

    def type(self, text: str) -> None:
        assert self._screen.run("xdotool", "type", "--delay", "8", text).returncode == 0
