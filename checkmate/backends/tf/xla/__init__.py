"""Compile scheduled steps with XLA: emission with ties, and XLA's memory.

Others may import ``memory``, ``emit``, ``emission``, ``compiled``, ``saved_model`` and ``fit``.
"""
