"""Compare predicted with measured memory and time."""
