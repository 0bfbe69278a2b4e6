"""What is asked of other processes and threads, and what they answer."""
