"""Fit, verify and export a step that XLA compiles.

Others may import ``export`` and ``verify``.
"""
