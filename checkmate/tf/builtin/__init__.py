"""Build the samples and the zoo, named in ``checkmate.catalog``."""
