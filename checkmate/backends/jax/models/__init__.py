"""Training steps of JAX that a request names.

They are loaded, planned and compared with the plain step.
"""
