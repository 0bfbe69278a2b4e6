"""Compile the search's kernels, once per machine, in several processes."""
