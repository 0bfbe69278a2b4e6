"""The solvers; ``registry`` lists them and loads one by name.

``problem`` is what each is given and reports, ``certify`` makes its result. A folder is a way to solve, but
for ``portfolio`` (several together), ``compile`` (the first start).
"""
