"""Rewrite the loops of a traced step, so that what happens inside them can be scheduled."""
