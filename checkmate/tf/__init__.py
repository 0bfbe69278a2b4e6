"""The only package that imports TensorFlow and Keras."""
