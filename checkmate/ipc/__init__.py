"""Frames to and from child processes."""
