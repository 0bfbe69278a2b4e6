"""The window's processes and their messages.

Each process is started with ``python -m``.
"""
