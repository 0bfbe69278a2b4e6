"""What begins with a graph: solve, check, certify, explain."""
