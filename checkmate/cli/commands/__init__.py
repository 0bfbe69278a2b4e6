"""One module for each command: its parser, what it runs, what it prints."""
