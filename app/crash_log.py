"""What went wrong in the window goes to a file, also where the process dies of it."""

from __future__ import annotations

import faulthandler
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TextIO

from PySide6.QtCore import QMessageLogContext, QtMsgType, SignalInstance, qInstallMessageHandler

_LARGEST = 2**20  # bytes; an older log is kept beside the new one


def open_log(folder: Path) -> TextIO | None:
    """``window.log`` in ``folder``, to append to; None where it cannot be written."""
    path = folder / "window.log"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > _LARGEST:
            path.replace(path.with_suffix(".old.log"))
        return path.open("a", encoding="utf-8", buffering=1)
    except OSError:
        return None


def keep_log(log: TextIO, tell: Callable[[str], None], logged: SignalInstance) -> None:
    """From now on uncaught exceptions, Qt's warnings and the stacks of a dying process are written to ``log``.

    ``tell``: is given one sentence about an uncaught exception; the window goes on. ``logged``: what other processes write to
    their stderr, tracebacks above all; goes there too.
    """
    logged.connect(lambda text: log.write(text))
    faulthandler.enable(log)

    def on_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        log.write(f"{time.strftime('%F %T')}\n{''.join(traceback.format_exception(kind, error, trace))}")
        sys.__excepthook__(kind, error, trace)
        if issubclass(kind, Exception):
            tell(
                f"Something in the window failed ({kind.__name__}: {error}); nothing that was found is lost. See {log.name}."
            )

    def on_message(kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
        if kind != QtMsgType.QtDebugMsg:
            log.write(f"{time.strftime('%F %T')} Qt: {message}\n")

    sys.excepthook = on_exception
    qInstallMessageHandler(on_message)
