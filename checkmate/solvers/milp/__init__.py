"""The paper's program, its rounding, and a tight program of our own."""
