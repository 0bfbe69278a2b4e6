"""Constraint programming over retention intervals."""
