"""Readers and writers of the files in the contract."""
