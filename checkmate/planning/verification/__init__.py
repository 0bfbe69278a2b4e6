"""Compare the scheduled step with the plain one, and report on it."""
