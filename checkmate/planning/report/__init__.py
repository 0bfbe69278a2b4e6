"""What a run leaves: records, notes, rows of measurements."""
