"""Repeat the Checkmate paper's evaluation."""
