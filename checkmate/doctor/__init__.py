"""What this machine can do, what is missing, and how to fix it.

Nothing here imports TensorFlow, Qt, a solver library or numpy: they are what may be broken.
"""
