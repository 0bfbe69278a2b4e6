"""Compile scheduled steps with XLA: emission with ties, and XLA's memory."""
