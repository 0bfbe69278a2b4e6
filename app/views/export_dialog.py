"""Export: where to, what will be done, and what was measured."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QDialog,
    QFileDialog,
    QHBoxLayout,
    QLineEdit,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.models.session import Session
from app.presenters.wording import strong
from app.views.panel import label
from checkmate.units import format_bytes, format_seconds


class ExportDialog(QDialog):
    """Runs the export in the device process; the window stays usable, closing the dialog cancels."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Export training graph")
        self.setAttribute(
            Qt.WidgetAttribute.WA_DeleteOnClose
        )  # else each would keep its graph as long as the window lives
        self.setMinimumWidth(560)
        self._session = session
        shown = session.exploration.shown
        assert shown is not None
        self._found = shown  # better ones may come on screen while this is open; what is written is what the title says
        column = QVBoxLayout(self)
        column.setSpacing(10)
        summary = (
            f"{shown.solver}: peak {format_bytes(shown.peak_bytes)} predicted, +{100 * shown.overhead:.1f} % step cost"
        )
        column.addWidget(label(summary, name="title", wrap=True))
        column.addWidget(
            label(
                "Writes a SavedModel that runs with TensorFlow alone, with graph, schedule and report. Gradients are compared with "
                "the plain step's, and the peak is measured in fresh processes; this takes a minute or two.",
                muted=True,
                wrap=True,
            )
        )
        row = QHBoxLayout()
        self._folder = QLineEdit(str(Path.cwd() / f"{shown.graph.name}-export"))
        self._folder.setAccessibleName("Folder")
        browse = QPushButton("Choose…")
        browse.clicked.connect(self._on_browse)
        row.addWidget(self._folder, 1)
        row.addWidget(browse)
        column.addLayout(row)
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setVisible(False)
        column.addWidget(self._bar)
        self._status = label("", wrap=True)
        column.addWidget(self._status)
        buttons = QHBoxLayout()
        buttons.addStretch(1)
        self._close = QPushButton("Close")
        self._close.clicked.connect(self.reject)
        self._start = QPushButton("Export and verify")
        self._start.setObjectName("primary")
        self._start.clicked.connect(self._on_start)
        buttons.addWidget(self._close)
        buttons.addWidget(self._start)
        column.addLayout(buttons)
        self._running = False
        session.progressed.connect(self._on_progress)
        session.exported.connect(self._on_exported)
        session.failed.connect(self._on_failed)
        session.device_ended.connect(self._on_ended)

    def _on_browse(self) -> None:
        chosen = QFileDialog.getExistingDirectory(self, "Folder to write into", self._folder.text())
        if chosen:
            self._folder.setText(chosen)

    def _on_start(self) -> None:
        self._running = True
        self._start.setEnabled(False)
        self._close.setText("Cancel")
        self._bar.setVisible(True)
        self._bar.setRange(0, 0)
        self._session.export(self._found, Path(self._folder.text()).expanduser())

    def _on_progress(self, stage: str, message: str, done: float, total: float) -> None:
        self._status.setText(message)

    def _on_ended(self) -> None:
        self._running = False
        self._bar.setVisible(False)
        self._start.setEnabled(True)
        self._close.setText("Close")

    def _on_exported(self, report: dict[str, Any]) -> None:
        peak, seconds = report["peak_bytes"], report["seconds"]
        good = "bitwise equal to the plain step's" if report["gradients"]["bitwise"] else "equal to the plain step's"
        lines = [
            strong("Verified and written." if report["ok"] else "Written, but not as promised:"),
            *map(html.escape, report["problems"]),
            f"✓ gradients {good}",
            f"peak {format_bytes(peak['measured'])} measured, {format_bytes(peak['predicted'])} predicted; plain "
            f"{format_bytes(peak['plain_measured'])}; after reloading {format_bytes(peak['reloaded_measured'])}",
            f"time {format_seconds(seconds['measured'])} a step measured; plain {format_seconds(seconds['plain_measured'])}",
            *map(html.escape, report["notes"]),
        ]
        self._status.setText("<br>".join(lines))

    def _on_failed(self, sentence: str, hint: str) -> None:
        if not self._running:
            return  # something else did
        self._status.setText(f"{strong(sentence)}<br>{html.escape(hint)}")

    def reject(self) -> None:
        if self._running:
            self._session.cancel_device()
            return
        super().reject()
