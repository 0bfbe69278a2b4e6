"""Compile the search once for a machine, and answer meanwhile."""
