"""Known strategies: keep all, Chen et al., Griewank & Walther."""
