from __future__ import annotations

from dataclasses import dataclass

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
