"""``bench fidelity``: predicted beside measured."""
