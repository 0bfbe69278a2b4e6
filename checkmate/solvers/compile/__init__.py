"""Run the search's kernels as machine code, compiled once per machine."""
