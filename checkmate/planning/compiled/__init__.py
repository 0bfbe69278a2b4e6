"""Fit, verify and export a step that XLA compiles.

Others may import ``export``, ``search``, ``step`` and ``verify``.
"""
