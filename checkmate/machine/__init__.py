"""This computer: its memory, GPUs, load, libraries, and the costs measured on it."""
