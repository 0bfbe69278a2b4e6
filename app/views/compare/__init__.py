"""Two graphs side by side."""
