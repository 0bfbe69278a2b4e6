"""Known strategies: keep all, Chen et al., Griewank & Walther.

Each makes schedules by a rule and knows no bound. ``candidates`` takes the cheapest one that fits.
"""
