"""Measure the cost, gap and seconds of solves."""
