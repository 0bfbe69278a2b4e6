"""Emit a schedule as a TensorFlow function, and export it."""
