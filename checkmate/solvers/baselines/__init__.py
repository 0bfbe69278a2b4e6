"""Known strategies: keep everything, Chen et al., Griewank & Walther."""
