"""``bench peers``: other ways to train in less memory beside ours."""
