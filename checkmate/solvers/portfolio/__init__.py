"""Solvers together: the default, the least memory, the live solve."""
