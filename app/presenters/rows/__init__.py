"""Rows of tables and lists; no Qt."""
