"""Start child processes, talk with them, and end them: one mechanism for all."""
