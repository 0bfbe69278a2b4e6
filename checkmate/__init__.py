"""Checkmate: solve, see and export rematerialized training steps."""

__version__ = "0.1.0"
