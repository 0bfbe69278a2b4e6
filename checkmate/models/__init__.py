"""Keras models, found, read, built, compiled and described here, without TensorFlow or JAX."""
