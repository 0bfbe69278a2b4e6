"""Search over step sequences: greedy, annealing, restarts."""
