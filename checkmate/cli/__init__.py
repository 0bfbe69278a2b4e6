"""The command line: ``main`` parses, ``commands`` run, ``shared`` holds what they share."""
