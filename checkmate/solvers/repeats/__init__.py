"""Networks of equal blocks: solve a few of them, and join the answer.

``find`` recognises the blocks of a step, ``shrink`` takes most of them out, ``stretch`` carries the small
step's schedule over to the whole.
"""
