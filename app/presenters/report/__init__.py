"""Draw the HTML page about what was explored."""
