"""Measurements: how good the solvers are and how soon, beside published figures."""
