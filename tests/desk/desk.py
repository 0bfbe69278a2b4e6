"""The window on a real display, a hand that uses it, and an eye.

The eye watches every frame.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from tests.desk.frames import Filled, Pixels, Verdict, emptied, filled_tiles
from tests.desk.hand import Hand
from tests.desk.screen import Screen

_FRAME_S, _POLL_S = 1 / 60, 0.001
_STILL_S, _MOST_STILL_S = 0.3, 6.0
_PATIENCE_S = 90.0
_TIMES_TYPED, _TYPED_S = 4, 10.0
# After a change it is watched for so long. At least so many frames are captured; the last so many are kept.
_AFTER_S, _LEAST_FRAMES, _MOST_FRAMES = 0.6, 12, 40
Rect = tuple[int, int, int, int]


@dataclass(frozen=True)
class Pause:
    """What a course does between two inputs: watch for some seconds."""

    seconds: float
    awaits: str = ""


class Desk:
    """Starts the window on ``file`` under a screen of its own. Use it in a ``with`` statement."""

    def __init__(self, file: Path | None, *, theme: str = "light") -> None:
        self._file, self._theme = file, theme
        self._stack = ExitStack()
        self._state: dict[str, Any] = {}
        self._read_at = 0

    def __enter__(self) -> Desk:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            self.screen = Screen(folder / "screen")
            stack.callback(self.screen.close)
            self.hand = stack.enter_context(Hand(self.screen))
            self._path = folder / "state.json"
            self._start(folder)
            stack.callback(self._end)
            # The window manager moves it from the corner a moment after it came.
            self.until(lambda: bool(self.state) and any(self.state["client"][:2]), "the window came up")
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _start(self, folder: Path) -> None:
        home = folder / "home"
        home.mkdir()
        self._log = folder / "window.log"
        names = ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
        own = {name: str(home / name.lower()) for name in names}
        environment = {
            **os.environ,
            **own,
            "DISPLAY": self.screen.display,
            "QT_QPA_PLATFORM": "xcb",
            "PYTHONFAULTHANDLER": "1",
        }
        file = [] if self._file is None else [str(self._file)]
        command = [sys.executable, "-m", "tests.desk.shown", str(self._path), *file, "--theme", self._theme]
        with self._log.open("w") as log:
            self._window = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)

    def _end(self) -> None:
        self._window.terminate()
        self._window.wait()

    @property
    def state(self) -> dict[str, Any]:
        if self._path.is_file():
            at = self._path.stat().st_mtime_ns
            if at != self._read_at:
                self._read_at, self._state = at, json.loads(self._path.read_text())
        return self._state

    @property
    def client(self) -> Pixels:
        return self.pixels(self.state["client"])

    def pixels(self, rect: Rect) -> Pixels:
        x, y, wide, high = rect
        return self.screen.pixels[max(0, y) : y + high, max(0, x) : x + wide]

    def panel(self, name: str) -> Rect:
        state = self.state
        x, y, wide, high = {**state["panels"], **state["places"]}[name]
        return x, y, wide, high

    def until(self, true: Callable[[], bool], what: str, patience: float = _PATIENCE_S) -> None:
        """Wait until something is true; fail if it takes longer than ``patience``."""
        end = time.monotonic() + patience
        while not true():
            log = self._log.read_text()[-2000:]
            assert self._window.poll() is None, f"the window ended: {log}"
            assert time.monotonic() < end, f"never happened: {what}; {log}"
            time.sleep(0.02)

    def type(self, text: str) -> None:
        """Type into the field that has the keys. Do it again where a busy machine lost some."""
        for _ in range(_TIMES_TYPED):
            self.hand.type(text)
            end = time.monotonic() + _TYPED_S
            while self.state["focus"]["typed"] != text and time.monotonic() < end:
                time.sleep(0.05)
            if self.state["focus"]["typed"] == text:
                return
            self.hand.key("ctrl+a")
        raise AssertionError(f"{text!r} was typed; in the field is {self.state['focus']}")

    def choose_file(self, keys: str, path: Path, chosen: Callable[[], bool]) -> None:
        self.hand.key(keys)
        self.until(lambda: self.state["dialog"], "the dialog that asks for a file came up")
        self.still()
        self.type(str(path))
        for _ in range(3):
            self.hand.key("Return")
            self.still()
            if chosen():
                return

    def until_open(self, ops: int) -> None:
        """Wait until a graph of so many ops is on screen, and the solver knows it."""
        self.until(lambda: self.state["ops"] == ops and self.state["ranged"], f"{ops} ops on screen")
        self.still()

    def resize(self, wide: int, high: int) -> None:
        ids = self.screen.run("xdotool", "search", "--onlyvisible", "--name", "Checkmate Explorer")
        window = ids.stdout.split()[-1]
        assert self.screen.run("xdotool", "windowsize", window, str(wide), str(high)).returncode == 0

    def still(self) -> Pixels:
        end = time.monotonic() + _MOST_STILL_S
        last, since = self.client.copy(), time.monotonic()
        while time.monotonic() < end and time.monotonic() - since < _STILL_S:
            time.sleep(0.03)
            now = self.client
            if now.shape != last.shape or not np.array_equal(now, last):
                last, since = now.copy(), time.monotonic()
        return last

    def watch(
        self,
        course: Iterator[Pause],
        but: Sequence[str] = (),
        kept: list[Pixels] | None = None,
    ) -> Verdict:
        """Run a course and capture all the while; return what the frames showed."""
        self.still()
        panels = {panel: rect for panel, rect in self.state["panels"].items() if panel not in but}
        before = {panel: filled_tiles(self.pixels(rect)) for panel, rect in panels.items()}
        seen: list[dict[str, Filled]] = []
        verdict, last = Verdict(), self.client.copy()
        for pause in course:
            end, begun = time.perf_counter() + pause.seconds, time.perf_counter()
            awaited = self.pixels(panels[pause.awaits]) if pause.awaits else None
            old, answer, due = (None if awaited is None else awaited.copy()), None, begun
            while (now := time.perf_counter()) < end:
                if awaited is not None and answer is None and not np.array_equal(awaited, old):
                    answer = now - begun
                if now >= due:
                    due = now + _FRAME_S
                    frame = self.screen.frame(self.state["client"])
                    if not np.array_equal(frame, last):
                        verdict.changed += 1
                        if kept is not None:
                            kept.append(frame)
                    last = frame
                    seen.append({p: filled_tiles(self._cut(frame, rect)) for p, rect in panels.items()})
                time.sleep(_POLL_S)
            if answer is not None:
                verdict.answers.append(answer)
        self.still()
        after = {panel: filled_tiles(self.pixels(rect)) for panel, rect in panels.items()}
        for tiles in seen:
            verdict.judge({p: emptied(found, before[p], after[p]) for p, found in tiles.items()})
        return verdict

    def watch_change(self, change: Callable[[], None], came: Callable[[], bool], what: str) -> Verdict:
        self.still()
        before = _Still(self.screen.frame(), dict(self.state["panels"]), self.state["client"])
        change()
        frames: list[Pixels] = []  # a frame for each change
        times: list[int] = []  # how often each was seen
        late, since = time.monotonic() + _PATIENCE_S, math.inf
        while time.monotonic() < since + _AFTER_S or sum(times) < _LEAST_FRAMES:
            frame = self.screen.frame()
            if not frames or not np.array_equal(frame, frames[-1]):
                frames, times = [*frames, frame][-_MOST_FRAMES:], [*times, 0][-_MOST_FRAMES:]
            times[-1] += 1
            if since == math.inf and came():
                since = time.monotonic()
            assert time.monotonic() < late, f"it never came: {what}"
            time.sleep(_FRAME_S)
        self.still()
        after = _Still(self.screen.frame(), dict(self.state["panels"]), self.state["client"])
        # The server cuts off what is outside a smaller window before the window knows of it.
        inside = _common(before.client, after.client)
        old = _Still(_only(before.pixels, inside), before.panels, before.client)
        verdict = Verdict()
        for frame, count in zip(frames, times, strict=True):
            best = min(
                old.emptied(_only(frame, inside)),
                after.emptied(frame),
                key=lambda shares: max(shares.values()),
            )
            verdict.judge(best, count)
            verdict.changed += count * (not np.array_equal(frame, before.pixels))
        return verdict

    def _cut(self, frame: Pixels, rect: Rect) -> Pixels:
        left, top, _, _ = self.state["client"]
        x, y, wide, high = rect
        return frame[y - top : y - top + high, x - left : x - left + wide]


def _common(one: Rect, other: Rect) -> Rect:
    left, top = max(one[0], other[0]), max(one[1], other[1])
    right = min(one[0] + one[2], other[0] + other[2])
    return left, top, right - left, min(one[1] + one[3], other[1] + other[3]) - top


def _only(frame: Pixels, rect: Rect) -> Pixels:
    x, y, wide, high = rect
    found = np.zeros_like(frame)
    found[y : y + high, x : x + wide] = frame[y : y + high, x : x + wide]
    return found


@dataclass(frozen=True)
class _Still:
    """The screen while nothing moves: its pixels and the panels' places. It also has the window's place."""

    pixels: Pixels
    panels: dict[str, Rect]
    client: Rect

    def emptied(self, frame: Pixels) -> dict[str, float]:
        found = {}
        for name, (x, y, wide, high) in (self.panels or {"page": self.client}).items():
            part = np.s_[y : y + high, x : x + wide]
            content = filled_tiles(self.pixels[part])
            found[name] = emptied(filled_tiles(frame[part]), content, content)
        return found
