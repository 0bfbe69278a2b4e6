"""``doctor --prove``: take small networks the whole way, and report it."""
