"""Train the user's own model within a budget, in his process."""
