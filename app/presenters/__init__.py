"""From values to what is drawn and said; no Qt."""
