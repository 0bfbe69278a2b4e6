"""Rewrite the loops of a traced step, so that they can be scheduled."""
