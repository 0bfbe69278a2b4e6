"""The solvers; ``registry`` lists them and loads one by name."""
