"""Read a log or a profile in a thread; the last request counts."""

from __future__ import annotations

import threading
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.workers.background import Background
from checkmate.errors import CheckmateError
from checkmate.records.memory import ReadRecord
from checkmate.records.read import read_record

_PATIENCE_S = 0.0


class RecordOpening(QObject):
    """The log or profile that is being read.

    Signals: ``opened(reading, path)``; ``failed(sentence, hint)``.
    """

    opened = Signal(object, object)
    failed = Signal(str, str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._current: Background | None = None
        self._stopped = threading.Event()

    @property
    def busy(self) -> bool:
        """Return whether something is being read."""
        return self._current is not None

    def start(self, path: Path) -> None:
        """Read ``path``; what is being read already is given up."""
        self.stop()
        stopped = self._stopped = threading.Event()
        found: list[ReadRecord | tuple[str, str]] = []

        def work() -> None:
            try:
                found.append(read_record(path, cancelled=stopped.is_set))
            except CheckmateError as error:
                found.append((str(error), error.hint))

        background = self._current = Background(self)
        background.done.connect(lambda _: self._on_done(background, found, path))
        background.start(work)

    def stop(self) -> None:
        """Give up what is being read; its thread ends soon by itself."""
        self._stopped.set()
        background, self._current = self._current, None
        if background is not None:
            background.close(_PATIENCE_S)
            background.deleteLater()

    def _on_done(self, background: Background, found: list[ReadRecord | tuple[str, str]], path: Path) -> None:
        if background is not self._current:
            return
        self.stop()
        result = found[0] if found else ("it could not be read because of an error in the program", "")
        if isinstance(result, ReadRecord):
            self.opened.emit(result, path)
        else:
            self.failed.emit(*result)
