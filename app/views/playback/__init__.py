"""Play the step, and save it as an animated picture."""
