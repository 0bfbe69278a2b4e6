"""The budget, the frontier as its slider, and the state of the solve."""
