"""Scheduled steps in files, by ``jax.export``."""
