"""Trace the curve of memory against cost, with bounds and baselines.

The command is ``checkmate frontier``.
"""
