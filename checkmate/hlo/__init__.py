"""XLA's dumps of a compiled step: read, and what they say about memory. Nothing in them is run."""
