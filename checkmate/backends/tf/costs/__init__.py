"""Find what each op of a step costs, measured or estimated."""
