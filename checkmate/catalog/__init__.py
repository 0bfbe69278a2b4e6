"""Samples, zoo models and peers by name, and the bundled files. Needs no TensorFlow."""
