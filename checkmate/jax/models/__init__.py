"""Training steps of JAX that a request names: loaded, planned, and compared."""
