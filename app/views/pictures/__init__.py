"""Pictures for papers and films of what the window shows."""
