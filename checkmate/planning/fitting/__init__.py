"""Fit a budget on the allocator's meter, or try one size of a step."""
