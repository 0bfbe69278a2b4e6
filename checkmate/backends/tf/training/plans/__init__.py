"""Plans of training steps: made, tried, kept, improved."""
