"""Child-process entries and the protocol they speak."""
