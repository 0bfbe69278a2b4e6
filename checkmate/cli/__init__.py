"""Run the command line.

``main`` parses, ``commands`` run, ``shared`` holds what several commands use.
"""
