"""The benchmarks: solvers, the paper's table, other ways to save memory."""
