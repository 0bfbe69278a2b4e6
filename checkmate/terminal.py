from __future__ import annotations

import html
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.progress import Progress as Bar
from rich.text import Text

from checkmate.progress import Progress, Report, silent
from checkmate.units import format_seconds

_BEFORE = "prepare"  # the work before the search; its last line stays on the screen

_PACE_S, _TICK_S = 9.5, 0.5  # between two lines of a log, and two looks at the clock: ten seconds at most

_PATIENCE_S = 1.0  # a stage that has not checked for this long will not check soon


def emit(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def complain(message: str, hint: str) -> None:
    sys.stderr.write(f"checkmate: {message}\n" + (f"  {hint}\n" if hint else ""))


class Interrupt:
    """Ask the running stage to stop at the first Ctrl-C, if the stage checks for it.

    Any other stage is stopped at once, as is every stage at the second press. What is stopped may clean up
    undisturbed.
    """

    def __init__(self) -> None:
        self.asked = False
        self._heard = -math.inf  # when the running stage last checked
        self._stopped = -math.inf  # when it was last stopped at once

    def __call__(self) -> bool:
        self._heard = time.monotonic()
        return self.asked

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again, self.asked = self.asked, True
        now = time.monotonic()
        if now - self._stopped > _PATIENCE_S and (again or now - self._heard > _PATIENCE_S):
            self._stopped = now
            raise KeyboardInterrupt

    @contextmanager
    def listening(self) -> Iterator[None]:
        before = signal.signal(signal.SIGINT, self._handle)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


@contextmanager
def progress_line(*, quiet: bool, report: Report | None = None) -> Iterator[Report]:
    """Yield a reporter of progress on standard error; ``report`` takes its place where it is given.

    On a terminal it draws a bar, in a notebook a ``CellLine``; elsewhere (a pipe, a log) it writes
    ``PacedLines``.
    """
    if report is not None or quiet:
        yield report or silent
    elif sys.stderr.isatty():
        with _bar() as drawn:
            yield drawn
    elif (display := _notebook_display()) is not None:
        line = CellLine(display)
        try:
            with _ticking(line) as drawn:
                yield drawn
        finally:
            line.close()
    else:
        with _ticking(PacedLines(sys.stderr.write)) as written:
            yield written


@contextmanager
def _bar() -> Iterator[Report]:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=24), _TimeColumn())
    with Bar(*columns, console=Console(file=sys.stderr), transient=True) as bar:
        task = bar.add_task("starting", total=None)
        stage = message = ""

        def report(progress: Progress) -> None:
            nonlocal stage, message
            if progress.stage != stage:
                if stage == _BEFORE:
                    bar.console.print(message, highlight=False, markup=False)
                bar.reset(task, total=progress.total)
                stage = progress.stage
            text = f"[bold]{stage}[/bold]  {escape(progress.message)}"
            message = progress.message
            bar.update(task, description=text, completed=progress.done, total=progress.total)

        yield report


class _TimeColumn(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(time_words(task.elapsed or 0.0, task.time_remaining))


def time_words(elapsed_s: float, left_s: float | None) -> str:
    """Return ``28 s, about 10 s left``."""
    passed = _whole_seconds(elapsed_s)
    return passed if left_s is None else f"{passed}, about {_whole_seconds(left_s)} left"


def _whole_seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else format_seconds(seconds)


@contextmanager
def _ticking(lines: PacedLines | CellLine) -> Iterator[Report]:
    over = threading.Event()

    def keep_time() -> None:
        while not over.wait(_TICK_S):
            lines.tick()

    clock = threading.Thread(target=keep_time, daemon=True, name="progress lines")
    clock.start()
    try:
        yield lines.report
    finally:
        over.set()
        clock.join()


class PacedLines:
    """A line for each new activity, and else one in ten seconds, with the seconds since the begin.

    A message that differs in numbers alone is no new activity.
    """

    def __init__(self, write: Callable[[str], object], clock: Callable[[], float] = time.monotonic) -> None:
        self._write, self._clock = write, clock
        self._begun = self._written = clock()
        self._activities: set[str] = set()
        self._latest = "starting"
        self._lock = threading.Lock()

    def report(self, progress: Progress) -> None:
        if not progress.message:
            return
        with self._lock:
            self._latest = f"{progress.stage}: {progress.message}"
            activity = "".join(each for each in self._latest if not each.isdigit())
            self._write_latest(at_once=activity not in self._activities)
            self._activities.add(activity)

    def tick(self) -> None:
        with self._lock:
            self._write_latest(at_once=False)

    def _write_latest(self, *, at_once: bool) -> None:
        now = self._clock()
        if at_once or now - self._written >= _PACE_S:
            self._written = now
            self._write(f"checkmate [{now - self._begun:3.0f} s] {self._latest}\n")


def _notebook_display() -> Callable[..., Any] | None:
    """Return IPython's ``display`` where its kernel runs this process; IPython is not loaded for that."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is None:
        return None
    found: Callable[..., Any] = import_module("IPython.display").display
    return found


class CellLine:
    """One line in the output of a notebook's cell, drawn anew in its place at each tick.

    What is over before the first tick draws nothing.
    """

    def __init__(self, display: Callable[..., Any], clock: Callable[[], float] = time.monotonic) -> None:
        self._display, self._clock = display, clock
        self._begun = self._stage_begun = clock()
        self._latest, self._place = Progress("starting"), None

    def report(self, progress: Progress) -> None:
        if progress.stage != self._latest.stage:
            self._stage_begun = self._clock()
        self._latest = progress

    def tick(self) -> None:
        self._draw(over=False)

    def close(self) -> None:
        if self._place is not None:
            self._draw(over=True)

    def _draw(self, *, over: bool) -> None:
        now, latest = self._clock(), self._latest
        share = min(1.0, latest.done / latest.total) if latest.total else 0.0
        left = (now - self._stage_begun) * (1 / share - 1) if share and not over else None
        seconds = time_words(now - self._begun, left)
        bar = f'<progress value="{share:.3f}" style="width: 160px"></progress> ' if share else ""
        line = f"<b>{html.escape(latest.stage)}</b> {bar}{html.escape(latest.message)} · {seconds}"
        text = f"{latest.stage}: {latest.message} [{seconds}]"
        if over:
            line = text = f"took {seconds}"
        look = "font-size: 13px; font-variant-numeric: tabular-nums; opacity: .8"
        shown = {"text/html": f'<div style="{look}">{line}</div>', "text/plain": text}
        if self._place is None:
            self._place = self._display(shown, raw=True, display_id=True)
        else:
            self._place.update(shown, raw=True)


@contextmanager
def without_native_chatter() -> Iterator[None]:
    """Discard what native libraries write to standard error, because TensorFlow logs there before any of its
    settings can stop it.

    Does nothing where ``sys.stderr`` has been replaced already.
    """
    original = sys.__stderr__
    if original is None or sys.stderr is not original:
        yield
        return
    original.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    with os.fdopen(kept, "w", buffering=1, encoding=original.encoding, errors="backslashreplace") as stream:
        sys.stderr = stream
        try:
            yield
        finally:
            stream.flush()
            sys.stderr = original
            os.dup2(kept, 2)
