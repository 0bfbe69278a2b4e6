"""Turn facts about the machine into lines: ok, limited or missing."""
