"""What asks, and what tells, in a window of its own."""
