"""What the selected op is, and what fills the memory."""
