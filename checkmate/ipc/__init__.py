"""Messages to and from child processes."""
