"""What is opened: graphs, explorations, logs, and what was open before."""
