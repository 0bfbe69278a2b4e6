"""Dynamic programming over the segments of a chain."""
