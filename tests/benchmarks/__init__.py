"""Measure what the pages of benchmarks show: ``python -m tests.benchmarks SUBJECT …``."""
