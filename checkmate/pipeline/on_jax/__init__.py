"""The stages for steps of JAX; the package ``checkmate.jax`` does their work."""
