"""Charts as SVG text, for the command line and for reports. Needs no Qt."""
