"""Load a model from what the user named, compiled and with a batch to run."""
