"""``checkmate max-batch``: the largest batch or input that fits a budget."""
