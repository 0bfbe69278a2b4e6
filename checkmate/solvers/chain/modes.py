"""The modes in which a stretch of a chain is reversed.

They are apart from the kernels, so that naming them loads nothing.
"""

PLAIN, REUSE, SEEDED = 0, 1, 2  # SEEDED and above: the values of one set of seeds are live
