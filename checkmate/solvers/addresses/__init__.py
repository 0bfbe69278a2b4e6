"""Choose the order of a schedule's steps for the allocator's sake."""
