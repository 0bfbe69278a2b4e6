"""The colours of the parts that every plot has."""

from __future__ import annotations

import pyqtgraph as pg

from app.theme import CurrentTheme


def color_plot(plot: pg.PlotWidget, theme: CurrentTheme) -> None:
    """Give a plot's background and its axes the colours of the theme."""
    plot.setBackground(theme.color("panel"))
    for side in ("left", "right", "bottom", "top"):
        axis = plot.getPlotItem().getAxis(side)
        axis.setPen(theme.color("border"))
        axis.setTextPen(theme.color("muted"))


def color_text(text: pg.TextItem, theme: CurrentTheme, role: str, under: int) -> None:
    """Give words in a plot a colour, on the panel's at the opacity ``under``."""
    text.setColor(theme.color(role))
    text.fill = pg.mkBrush(theme.color("panel", under))
    text.update()
