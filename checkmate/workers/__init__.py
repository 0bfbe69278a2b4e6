"""The window's processes: each module is started with ``python -m``."""
