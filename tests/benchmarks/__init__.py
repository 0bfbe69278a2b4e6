"""Measurements of the window, run by hand: ``python -m tests.benchmarks.NAME``."""
