"""What is kept on this machine: costs, plans, and where they are from."""
