"""Measure how good and how fast the solvers are.

The results are shown beside published figures.
"""
