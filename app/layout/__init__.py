"""Where the boxes of the graph and the rows of the lists go. Needs no Qt."""
