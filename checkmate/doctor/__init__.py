"""Find out what this machine can do, what is missing, and how to fix it.

``look.look_around`` gathers facts, each library in a child process. ``lines.diagnose`` turns facts into
lines. ``prove`` runs small networks through all stages. Nothing here imports TensorFlow, Qt, a solver library
or numpy: they are what may be broken.
"""
