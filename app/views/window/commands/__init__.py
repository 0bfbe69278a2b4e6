"""What the window's commands do, and where they are found."""
