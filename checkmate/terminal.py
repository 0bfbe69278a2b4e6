"""Write the command line's output and progress; handle Ctrl-C."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from checkmate.progress import Progress, Report, silent

_TITLES = {
    "load": "load",
    "trace": "trace",
    "fold": "fold",
    "measure": "measure",
    "solve": "solve",
    "export": "export",
}

_BEFORE = "prepare"  # the work before the search; its last line stays on the screen

_PACE_S, _TICK_S = 10.0, 0.5  # between two lines of a log, and between two looks at the clock

_PATIENCE_S = 1.0  # a stage that has not checked for this long will not check soon


def emit(text: str) -> None:
    """Write one block to standard output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def complain(message: str, hint: str) -> None:
    """Write one sentence and its hint to standard error."""
    sys.stderr.write(f"checkmate: {message}\n" + (f"  {hint}\n" if hint else ""))


class Interrupt:
    """Handle Ctrl-C.

    The first press asks the running stage to stop, if the stage checks for it. Any other stage is stopped at
    once, as is every stage at the second press.
    """

    def __init__(self) -> None:
        self.asked = False
        self._heard = -math.inf  # when the running stage last checked

    def __call__(self) -> bool:
        self._heard = time.monotonic()
        return self.asked

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked or time.monotonic() - self._heard > _PATIENCE_S:
            raise KeyboardInterrupt
        self.asked = True

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Catch SIGINT (Ctrl-C) inside this block."""
        before = signal.signal(signal.SIGINT, self._handle)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


@contextmanager
def progress_line(*, quiet: bool) -> Iterator[Report]:
    """Yield a reporter that draws a progress line on standard error.

    The line has a bar, the seconds and the time left. Without a terminal, no bar is drawn.
    """
    if quiet:
        yield silent
        return
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield _Lines(console).report
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)
        stage = message = ""

        def report(progress: Progress) -> None:
            nonlocal stage, message
            title = _TITLES.get(progress.stage, progress.stage)
            if progress.stage != stage:
                if stage == _BEFORE:
                    bar.console.print(message, highlight=False, markup=False)
                bar.reset(task, total=progress.total)
                stage = progress.stage
            text = f"[bold]{title}[/bold]  {escape(progress.message)}"
            message = progress.message
            bar.update(task, description=text, completed=progress.done, total=progress.total)

        yield report


@contextmanager
def progress_here(*, quiet: bool) -> Iterator[Report]:
    """Yield a reporter for work inside a user's own program.

    On a terminal it draws a line; elsewhere (a log, a notebook) it writes few lines.
    """
    if quiet or sys.stderr.isatty():
        with progress_line(quiet=quiet) as report:
            yield report
        return
    lines, over = PacedLines(sys.stderr.write), threading.Event()

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
    """Write progress at a rate that a log bears.

    That is one line for each new stage, and else at most one in ten seconds, with the seconds since the
    begin. ``write`` takes a whole line; ``clock`` tells seconds.
    """

    def __init__(self, write: Callable[[str], object], clock: Callable[[], float] = time.monotonic) -> None:
        self._write, self._clock = write, clock
        self._begun, self._written = clock(), -math.inf
        self._stages: set[str] = set()
        self._waiting: Progress | None = None  # the newest that was not written
        self._lock = threading.Lock()

    def report(self, progress: Progress) -> None:
        """Write a line if the stage is new, or the last line is ten seconds old."""
        if not progress.message:
            return
        with self._lock:
            self._waiting = progress
            self._write_waiting(at_once=progress.stage not in self._stages)

    def tick(self) -> None:
        """Write the newest report that was not written, if its time has come."""
        with self._lock:
            self._write_waiting(at_once=False)

    def _write_waiting(self, *, at_once: bool) -> None:
        progress, now = self._waiting, self._clock()
        if progress is None or not (at_once or now - self._written >= _PACE_S):
            return
        self._waiting, self._written = None, now
        self._stages.add(progress.stage)
        self._write(f"checkmate [{now - self._begun:3.0f} s] {progress.stage}: {progress.message}\n")


@contextmanager
def without_native_chatter() -> Iterator[None]:
    """Discard what native libraries write to standard error.

    Inside this block only Python writes there. TensorFlow logs to file descriptor 2 before any of its own
    settings can stop it. Does nothing where ``sys.stderr`` has been replaced already.
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


class _Lines:
    """Print one plain line per change of activity, for non-terminals."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = ("", "")

    def report(self, progress: Progress) -> None:
        """Print a line where stage or message have changed.

        Numbers in the message do not count as a change.
        """
        message = "".join(c for c in progress.message if not c.isdigit())
        if progress.message and (progress.stage, message) != self._last:
            self._last = (progress.stage, message)
            self._console.print(f"{progress.stage}: {progress.message}", highlight=False, markup=False)
