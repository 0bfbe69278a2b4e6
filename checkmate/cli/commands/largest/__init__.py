"""What fits: the largest batch, the largest input, which card."""
