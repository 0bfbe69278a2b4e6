"""Lists of layers and of schedules."""
