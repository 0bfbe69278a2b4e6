"""Keras models, whatever Keras computes with.

They are found, read, built and compiled here, and a batch of them is described. Nothing here imports
TensorFlow or JAX: ``checkmate.backends.tf`` and ``checkmate.jax`` trace what is loaded here.
"""
