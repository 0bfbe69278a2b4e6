"""The training graph, painted."""
