"""Values to numbers to draw; no Qt."""
