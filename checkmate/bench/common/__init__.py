"""What all measurements share: the machine, rows kept on disk, progress."""
