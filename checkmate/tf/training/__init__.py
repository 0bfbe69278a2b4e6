"""The user's own Keras model, planned, measured and replaced in its process."""
