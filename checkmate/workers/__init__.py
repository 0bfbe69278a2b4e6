"""The window's processes, each started with ``python -m``, and their messages."""
