"""``checkmate max-batch``: the largest batch or input that fits a budget.

``of_model`` is where it begins, ``search`` looks for the size, ``scaling`` and ``scaling_traced`` make the
graph at another size, and ``measured`` runs the step there.
"""
