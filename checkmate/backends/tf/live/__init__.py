"""Plan and measure the user's own Keras model, and replace its training."""
