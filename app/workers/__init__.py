"""Child processes as Qt objects."""
