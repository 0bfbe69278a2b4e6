"""What each op costs on this device: measured, remembered or counted."""
