"""Path cuts: a lower bound on the cost for every order of execution."""
