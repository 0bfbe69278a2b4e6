"""What begins with a model: profile, run, export, verify."""
