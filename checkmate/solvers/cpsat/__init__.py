"""Retention intervals for CP-SAT, solved in a process of its own."""
