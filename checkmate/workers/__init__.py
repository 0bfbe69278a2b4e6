"""The window's processes; each is started with ``python -m``."""
