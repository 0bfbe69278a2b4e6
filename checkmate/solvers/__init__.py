"""Solvers, behind one registry."""
