"""``bench solvers`` and ``bench published``: cost, gap and seconds of solves."""
