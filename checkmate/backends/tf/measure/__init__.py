"""Measure a step in a fresh process: peak, time, loss and gradients."""
