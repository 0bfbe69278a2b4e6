"""What several solvers use.

``retention`` turns what is held into steps. ``given_order`` is the base of solvers that keep the given
order. ``articulation``, ``buffers`` and ``closures`` ask a graph; ``highs_thread`` runs HiGHS.
"""
