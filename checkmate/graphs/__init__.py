"""Networks, the graphs of their training steps, and generated graphs."""
