"""What the window knows of solves and constraints, as values. Needs no Qt."""
