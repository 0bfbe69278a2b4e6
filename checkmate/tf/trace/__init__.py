"""The training step as TensorFlow traces it, folded into a graph of ops."""
