"""List samples, zoo models, peers and bundled files by name.

None of it needs TensorFlow.
"""
