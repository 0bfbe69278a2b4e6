from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QApplication, QComboBox, QDoubleSpinBox, QFileDialog, QSpinBox, QToolButton

from app.presenters.record_rows import asked_part, bar_parts
from app.theme import DARK, LIGHT, Theme, color_application
from checkmate.records.read import read_record

WORDS, OUTLINES = 4.5, 3.0
SURFACES = ("window", "panel", "raised", "selected", "notice", "mild_notice")
both_themes = pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])


def contrast(one: str, other: str) -> float:
    def luminance(name: str) -> float:
        parts = QColor(name).getRgbF()[:3]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def least(theme: Theme, roles: tuple[str, ...], under: tuple[str, ...]) -> tuple[float, str, str]:
    return min(
        (contrast(theme.tokens[role], theme.tokens[ground]), role, ground)
        for role in roles
        for ground in under
    )


@both_themes
def test_words_stand_out_from_every_surface(theme: Theme) -> None:
    assert least(theme, ("text", "muted", "accent", "problem"), SURFACES)[0] >= WORDS


@both_themes
def test_colored_words_stand_out(theme: Theme) -> None:
    # The names of the rails.
    assert least(theme, ("forward", "backward", "recomputed"), ("panel", "window"))[0] >= WORDS
    assert least(theme, ("text",), ("forward_fill", "backward_fill"))[0] >= WORDS
    assert least(theme, ("on_accent",), ("accent",))[0] >= WORDS
    assert least(theme, ("on_playhead",), ("playhead",))[0] >= WORDS
    assert least(theme, ("panel",), ("recomputed",))[0] >= WORDS  # badges


@both_themes
def test_outlines_stand_out(theme: Theme) -> None:
    roles = ("forward", "backward", "recomputed", "held", "freed", "fixed", "accent")
    assert least(theme, roles, ("panel",))[0] >= OUTLINES
    fields = ("window", "panel", "raised")  # of lines of text, lists of choices and numbers
    assert least(theme, ("freed", "accent", "muted"), fields)[0] >= OUTLINES


@both_themes
def test_the_playhead_stands_out_from_all_it_lies_on(theme: Theme) -> None:
    for ground in ("panel", "forward", "backward", "held", "recomputed"):
        sides = (least(theme, (role,), (ground,))[0] for role in ("playhead", "playhead_case"))
        assert max(sides) >= OUTLINES, ground


@both_themes
def test_the_frames_of_choices_and_numbers_stand_out(qapp, theme: Theme) -> None:
    color_application(qapp, theme)
    try:
        for kind in (QComboBox, QSpinBox, QDoubleSpinBox):
            frame = QApplication.palette(kind.__name__).window().color().darker(140)  # as the style does it
            assert contrast(frame.name(), theme.tokens["window"]) >= OUTLINES, kind.__name__
    finally:
        color_application(qapp, LIGHT)


@both_themes
def test_the_arrows_of_qts_own_file_dialog_stand_out(qapp, qtbot, theme: Theme) -> None:
    color_application(qapp, theme)
    try:
        dialog = QFileDialog(options=QFileDialog.Option.DontUseNativeDialog)
        qtbot.addWidget(dialog)
        for name in ("backButton", "forwardButton", "toParentButton"):
            image = dialog.findChild(QToolButton, name).icon().pixmap(16).toImage()
            every = (image.pixelColor(x, y) for x, y in np.ndindex(image.width(), image.height()))
            (color, count), *_ = Counter(one.name() for one in every if one.alpha() > 200).most_common()
            assert count > 20 and contrast(color, theme.tokens["window"]) >= OUTLINES, (name, color)
    finally:
        color_application(qapp, LIGHT)


@both_themes
def test_marks_of_what_is_selected_stand_out(theme: Theme) -> None:
    # Graph, matrices and curve are cased with the panel's colour; lists have the other one.
    assert least(theme, ("accent",), ("panel", "selected"))[0] >= OUTLINES


@both_themes
def test_the_parts_of_a_records_bar_stand_out_from_the_panel(theme: Theme) -> None:
    record = read_record(Path(__file__).parents[1] / "unit" / "records" / "data" / "oom_2_21.log").records[0]
    roles = tuple(part.role for part in (*bar_parts(record), asked_part(record)))
    assert len(roles) > 2 and least(theme, roles, ("window",))[0] >= OUTLINES


# How colours are seen without one kind of cone, in linear RGB: Machado, Oliveira and Fernandes 2009.
_SEEN = {
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
_TO_XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
_APART = 10.0  # of CIELAB; 2.3 is just noticeable


def as_seen(name: str, seen: str) -> np.ndarray:
    """Return the CIELAB coordinates of a colour as it is seen."""
    rgb = np.array(QColor(name).getRgbF()[:3])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = np.array(_TO_XYZ) @ np.clip(np.array(_SEEN[seen]) @ linear, 0, 1) / (0.9505, 1.0, 1.089)
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@both_themes
@pytest.mark.parametrize("seen", _SEEN)
def test_what_lies_side_by_side_is_told_apart_without_one_kind_of_cone(theme: Theme, seen: str) -> None:
    roles = ("forward", "backward", "recomputed", "held", "playhead")  # what is freed has another outline
    colors = {role: as_seen(theme.tokens[role], seen) for role in roles}
    apart = {
        (one, other): float(np.linalg.norm(colors[one] - colors[other]))
        for one, other in itertools.combinations(roles, 2)
    }
    assert min(apart.values()) >= _APART, sorted(apart.items(), key=lambda pair: pair[1])[:3]
