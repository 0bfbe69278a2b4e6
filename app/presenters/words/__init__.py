"""Sentences and names, as they are read in the window; no Qt."""
