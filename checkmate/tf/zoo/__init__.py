"""Builders of ``checkmate.zoo``'s models."""
