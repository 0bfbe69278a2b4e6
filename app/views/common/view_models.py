from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QObject

from app.models.cursors import Comparison, Playhead, Selection
from app.models.exploration import Exploration
from app.models.span import StepSpan
from app.theme import CurrentTheme


@dataclass(frozen=True, eq=False)
class ViewModels:
    """The schedule on screen and what is compared with it, the cursors, and the colours."""

    exploration: Exploration
    comparison: Comparison
    playhead: Playhead
    selection: Selection
    span: StepSpan
    theme: CurrentTheme

    @classmethod
    def of(
        cls,
        exploration: Exploration,
        playhead: Playhead,
        selection: Selection,
        theme: CurrentTheme,
        parent: QObject | None = None,
    ) -> ViewModels:
        comparison, span = Comparison(exploration, parent), StepSpan(exploration, parent)
        return cls(exploration, comparison, playhead, selection, span, theme)
