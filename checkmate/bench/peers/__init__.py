"""Compare other ways to train in less memory with ours."""
