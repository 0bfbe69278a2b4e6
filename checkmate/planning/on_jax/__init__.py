"""Compose the stages for steps of JAX.

The package ``checkmate.jax`` does their work.
"""
