"""The ways in which a stretch of a chain is reversed; apart from the kernels, so that naming them loads nothing."""

PLAIN, REUSE, SEEDED = 0, 1, 2  # SEEDED and above: with the values of one set of seeds there
