"""Build and measure other ways of Keras and TensorFlow to save memory."""
