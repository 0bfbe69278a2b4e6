"""Read what frameworks wrote about memory: logs of TensorFlow and PyTorch, profiles of TensorFlow."""
