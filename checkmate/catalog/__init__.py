"""Lists of samples, zoo models, cards and bundled files, without TensorFlow."""
