"""Where the boxes of the graph and the rows of its lists go. Needs no Qt."""
