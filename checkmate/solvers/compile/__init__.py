"""Compile the kernels of the search, once for a machine, in several processes."""
