"""Figures for a paper or a slide: one view, in the size that fits.

The page says how wide it is and how large its words are.
"""
