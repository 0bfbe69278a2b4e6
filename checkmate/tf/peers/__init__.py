"""Keras's and TensorFlow's own ways to save memory, built and measured."""
