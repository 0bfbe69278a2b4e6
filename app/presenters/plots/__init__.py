"""What is drawn over the steps, as numbers and images; no Qt."""
