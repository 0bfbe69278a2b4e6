"""What XLA needs beside a schedule: decided here for TensorFlow and JAX, emitted by each in its own ops."""
