"""Training steps of JAX that a request names."""
