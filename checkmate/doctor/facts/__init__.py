"""Gather facts about the machine without importing what may be broken."""
