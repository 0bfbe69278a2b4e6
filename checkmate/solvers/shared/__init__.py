"""What several solvers use."""
