"""Figures for a paper or a slide: one view, as wide and with words as large as the page wants."""
