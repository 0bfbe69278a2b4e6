"""Compare the scheduled step with the plain one, and report what was found."""
