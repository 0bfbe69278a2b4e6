"""Steps that JAX computes. Only this package imports JAX."""
