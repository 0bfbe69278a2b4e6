"""Build the samples and the zoo that ``checkmate.catalog`` names."""
