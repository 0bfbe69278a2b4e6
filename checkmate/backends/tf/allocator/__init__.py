"""Predict what the device's allocator will show for a schedule."""
