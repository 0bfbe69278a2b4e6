"""Lists of samples, cards and bundled files, without TensorFlow."""
