"""List samples, zoo models and bundled files by name.

None of it needs TensorFlow.
"""
