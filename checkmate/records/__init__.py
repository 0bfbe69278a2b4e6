"""Read what TensorFlow itself wrote about memory: its logs and profiles."""
