"""Trace the training step with TensorFlow and fold it into a graph of ops."""
