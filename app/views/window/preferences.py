from __future__ import annotations

from PySide6.QtCore import QObject, QSettings

from app.models.placements import LineChoice
from app.models.session import Session
from app.presenters.lines_across import LineKind
from app.theme import CurrentTheme, ThemeChoice

_THEME, _FILL, _SECONDS = "appearance/theme", "solving/fill", "solving/seconds"
_LINES, _CARD = "curve/lines", "curve/card"
LEAST_SECONDS, MOST_SECONDS = 1, 60  # for a solve; "Solve longer" has at least as many


def kept_theme(settings: QSettings | None) -> ThemeChoice:
    kept = None if settings is None else settings.value(_THEME)
    return next((choice for choice in ThemeChoice if choice.value == kept), ThemeChoice.SYSTEM)


class Preferences(QObject):
    """The theme, how the window solves, and the lines of the memory curve. Each is written as soon as it is
    another. Without settings, they are those of one window."""

    def __init__(
        self,
        settings: QSettings | None,
        theme: CurrentTheme,
        session: Session,
        lines: LineChoice,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._settings, self.theme = settings, theme
        self._solving, self.listing, self._lines = session.solving, session.exploration.listing, lines
        if settings is not None:
            self.listing.fill_wanted = settings.value(_FILL, True, bool) is True
            self.seconds = _number(settings.value(_SECONDS), self.seconds)
            kept = str(settings.value(_LINES, ",".join(lines.wanted))).split(",")
            lines.want(kind for kind in LineKind if kind in kept)
            lines.choose_card(str(settings.value(_CARD, lines.card)))
        theme.chosen.connect(lambda: self._keep(_THEME, theme.choice.value))
        self.listing.fill_switched.connect(lambda on: self._keep(_FILL, on))
        lines.changed.connect(self._keep_lines)

    @property
    def seconds(self) -> int:
        return round(self._solving.seconds)

    @seconds.setter
    def seconds(self, seconds: int) -> None:
        seconds = min(MOST_SECONDS, max(LEAST_SECONDS, seconds))
        if seconds != self.seconds:
            self._solving.seconds = float(seconds)
            self._keep(_SECONDS, seconds)

    def _keep_lines(self) -> None:
        self._keep(_LINES, ",".join(sorted(self._lines.wanted)))
        self._keep(_CARD, self._lines.card)

    def _keep(self, name: str, value: object) -> None:
        if self._settings is not None:
            self._settings.setValue(name, value)


def _number(kept: object, otherwise: int) -> int:
    text = str(kept) if isinstance(kept, str | int) else ""
    return int(text) if text.isdecimal() and len(text) < 9 else otherwise
