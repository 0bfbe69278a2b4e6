"""``checkmate frontier``: the curve of memory against cost, with bounds and baselines."""
