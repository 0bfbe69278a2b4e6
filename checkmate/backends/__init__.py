"""What computes a step: TensorFlow's executor, XLA, JAX."""
