"""Hold one module per command: its parser, its run, its output."""
