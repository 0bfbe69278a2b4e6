"""Share the parts of all measurements: machine, rows, progress."""
