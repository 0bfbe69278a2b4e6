"""The window's log file of what went wrong, written even if the process dies of it."""

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

from checkmate.machine.fault_report import as_known

_LARGEST = 2**20  # bytes; a log this long is set aside and a new one begun


def open_log(folder: Path) -> TextIO | None:
    """Open ``window.log`` in ``folder`` to append to it; None if that fails."""
    path = folder / "window.log"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > _LARGEST:
            path.replace(path.with_suffix(".old.log"))
        return path.open("a", encoding="utf-8", buffering=1)
    except OSError:
        return None


def keep_log(log: TextIO, tell: Callable[[str, str], object], logged: SignalInstance) -> None:
    """Write uncaught exceptions, Qt's warnings, crash stacks and what is ``logged`` to ``log``. ``tell`` gets
    an exception's sentence and hint."""
    logged.connect(lambda text: log.write(text))
    faulthandler.enable(log)

    def on_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        log.write(f"{time.strftime('%F %T')}\n{''.join(traceback.format_exception(kind, error, trace))}")
        sys.__excepthook__(kind, error, trace)
        if isinstance(error, Exception):
            known = as_known(error)
            tell(f"{known}; nothing that was found is lost", known.hint)

    def on_message(kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
        if kind != QtMsgType.QtDebugMsg:
            log.write(f"{time.strftime('%F %T')} Qt: {message}\n")

    sys.excepthook = on_exception
    qInstallMessageHandler(on_message)
