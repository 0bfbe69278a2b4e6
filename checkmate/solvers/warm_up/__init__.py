"""Give first answers while the search is being compiled."""
