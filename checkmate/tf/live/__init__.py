"""A user's own Keras model, in the user's own process: its training step planned, measured and replaced."""
