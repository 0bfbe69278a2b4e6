"""Train compiled by XLA within a budget.

Others may import ``training``.
"""
