"""How A differs from B, in a line above the timeline."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSizePolicy, QWidget

from app.models.comparison import Comparison
from app.models.undo import ShownEdits
from app.theme import CurrentTheme
from app.views.common.panel import label

_KEY = 13.0
_GAP = 5.0


class CompareBar(QWidget):
    """Shows in words how two compared schedules differ.

    It also has the key to the colours of R and S, and two buttons. It is hidden while nothing is compared.
    """

    def __init__(self, comparison: Comparison, edits: ShownEdits, theme: CurrentTheme) -> None:
        super().__init__()
        self._comparison = comparison
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        self._sentence: QLabel = label("")
        self._sentence.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.swap, self.close_button = QPushButton("⇄"), QPushButton("✕")
        self.swap.clicked.connect(edits.swap)
        self.close_button.clicked.connect(lambda: edits.compare(None))
        self._key = _Key(theme)
        row.addWidget(self._sentence, 1)
        row.addWidget(self._key)
        for button, name in ((self.swap, "Swap A and B"), (self.close_button, "Stop comparing")):
            button.setObjectName("small")
            button.setToolTip(name)
            button.setAccessibleName(name)
            row.addWidget(button)
        comparison.changed.connect(self._refresh)
        self._refresh()

    def text(self) -> str:
        """Return the whole sentence, however narrow the bar."""
        found = self._comparison.difference
        return "" if found is None else found.sentence

    def _refresh(self) -> None:
        self.setVisible(self._comparison.active)
        text = self.text()
        self._key.setVisible(self.width() > 620)
        self._sentence.setToolTip(text)
        self._sentence.setText(
            self._sentence.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, self._sentence.width())
        )

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._refresh()


class _Key(QWidget):
    """Shows what the colours and hatches of a compared R and S mean."""

    _ENTRIES = (
        ("only A", "forward", Qt.BrushStyle.FDiagPattern),
        ("only B", "backward", Qt.BrushStyle.BDiagPattern),
        ("both", "freed", Qt.BrushStyle.NoBrush),
    )

    def __init__(self, theme: CurrentTheme) -> None:
        super().__init__()
        self._theme = theme
        self.setAccessibleName("Blue, hatched: only in A; orange, hatched: only in B; grey: in both")

    def sizeHint(self) -> QSize:
        width = sum(
            self.fontMetrics().horizontalAdvance(text) + _KEY + 3 * _GAP for text, *_ in self._ENTRIES
        )
        return QSize(int(width), 18)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        x, middle = 0.0, self.height() / 2
        for text, role, hatch in self._ENTRIES:
            box = QRectF(x, middle - _KEY / 2, _KEY, _KEY)
            painter.fillRect(box, self._theme.color(role, 130 if role == "freed" else 255))
            painter.fillRect(box, QBrush(self._theme.color("panel", 170), hatch))
            x += _KEY + _GAP
            painter.setPen(self._theme.color("muted"))
            width = self.fontMetrics().horizontalAdvance(text) + 1.0
            painter.drawText(QRectF(x, 0, width, self.height()), int(Qt.AlignmentFlag.AlignVCenter), text)
            x += width + 2 * _GAP
        painter.end()
