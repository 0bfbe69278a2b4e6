"""``checkmate doctor``: what this machine can do, what is missing, and the command that mends it.

``look.look_around`` gathers facts, each library in a child process; ``lines.diagnose`` turns facts into lines; ``prove`` takes the
whole way on small networks. Nothing here imports TensorFlow, Qt, a solver library or numpy: they are what may be broken.
"""
