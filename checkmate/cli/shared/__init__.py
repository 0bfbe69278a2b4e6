"""Share options and output between commands."""
