"""Find words that a widget has no room for."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QRect
from PySide6.QtWidgets import QAbstractButton, QAbstractScrollArea, QComboBox, QLabel, QLineEdit, QWidget

from app.views.common.texts import ElidedLabel, ElidedLink

_ROUNDED = 1  # pixels


def cut_words(window: QWidget) -> list[str]:
    """Return a line for each label, button or hint whose words are cut. Only those that are visible count."""
    kinds = (QLabel, QAbstractButton, QComboBox, QLineEdit)
    parts = (part for kind in kinds for part in window.findChildren(kind) if part.isVisible())
    return [f"{_path(part)}: {said!r} {why}" for part in parts for said, why in _fault(part, window)]


def _fault(part: QWidget, window: QWidget) -> list[tuple[str, str]]:
    said = part.placeholderText() if isinstance(part, QLineEdit) else _text(part)
    if not said or isinstance(part, ElidedLabel | ElidedLink) or part.width() == 0:
        return []
    if isinstance(part, QLineEdit):
        needed, room = part.fontMetrics().horizontalAdvance(said), part.contentsRect().width() - 4
        return [(said, f"needs {needed} pixels, has {room}")] if needed > room and not part.text() else []
    if isinstance(part, QLabel) and part.wordWrap():
        needed, room = part.heightForWidth(part.width()), part.height()
        return [(said, f"needs {needed} pixels of height, has {room}")] if needed > room + _ROUNDED else []
    hint, size = part.sizeHint(), part.size()
    if hint.width() > size.width() + _ROUNDED:
        return [(said, f"needs {hint.width()} pixels, has {size.width()}")]
    seen = _seen(part, window)
    outside = not seen.isEmpty() and seen.size() != part.size()  # what is behind a tab is not seen at all
    return [(said, "is partly outside")] if outside and not _scrolled(part, window) else []


def _text(part: QWidget) -> str:
    if isinstance(part, QComboBox):
        return part.currentText()
    return str(part.text()) if isinstance(part, QLabel | QAbstractButton) else ""


def _scrolled(part: QWidget, window: QWidget) -> bool:
    """Return whether the part is in an area that scrolls."""
    at: QWidget | None = part
    while at is not None and at is not window:
        at = at.parentWidget()
        if isinstance(at, QAbstractScrollArea):
            return True
    return False


def _seen(part: QWidget, window: QWidget) -> QRect:
    """Return the rectangle of a part that its parents do not cut off."""
    seen, at = part.rect(), part.parentWidget()
    while at is not None:
        seen &= at.rect().translated(-part.mapTo(at, QPoint(0, 0)))
        if at is window:
            break
        at = at.parentWidget()
    return seen


def _path(part: QWidget) -> str:
    """Return which panel or dialog a part is in."""
    names, at = [type(part).__name__], part.parentWidget()
    while at is not None:
        if type(at).__module__.startswith("app."):
            names.append(type(at).__name__)
        at = at.parentWidget()
    return " in ".join(names[:3])
