"""Describe this computer: memory, GPUs, load, libraries, measured costs."""
