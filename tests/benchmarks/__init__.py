"""Measure the window, by hand: ``python -m tests.benchmarks.NAME``."""
