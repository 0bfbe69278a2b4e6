"""The views in docks: budget, solving, inspector, layers, schedules."""
