"""R, S and the memory curve over the steps."""
